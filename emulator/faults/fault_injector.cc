#include "emulator/faults/fault_injector.h"

#include <charconv>

#include "emulator/base/status.h"

namespace hpu::emulator {
namespace {

constexpr std::string_view kPointNames[kNumFaultPoints] = {"acquire", "malloc",      "host_malloc",
                                                           "copy",    "launch",      "execution",
                                                           "compile", "deserialize", "synchronize"};

bool ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

absl::StatusOr<FaultInjector::Fault> FaultInjector::Parse(const std::string& text) {
  const size_t colon = text.find(':');
  const size_t equals = text.find('=');
  uint64_t occurrence = 0;
  uint64_t status = 0;
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) {
    return InvalidArgument("fault \"", text, "\": the form is point:occurrence=status");
  }
  const std::string which = text.substr(colon + 1, equals - colon - 1);
  if ((which != "*" && (!ParseNumber(which, &occurrence) || occurrence == 0)) ||
      !ParseNumber(std::string_view(text).substr(equals + 1), &status) || status == 0 ||
      status > synStatusLast) {
    return InvalidArgument("fault \"", text,
                           "\": occurrence is a number from 1 or *, status a number from 1 to ",
                           static_cast<int>(synStatusLast));
  }
  const std::string point = text.substr(0, colon);
  std::string known;
  for (int i = 0; i < kNumFaultPoints; ++i) {
    if (kPointNames[i] == point) {
      return Fault{static_cast<FaultPoint>(i), occurrence, static_cast<synStatus>(status)};
    }
    known += std::string(i == 0 ? "" : ", ") + std::string(kPointNames[i]);
  }
  return InvalidArgument("fault \"", text, "\": the point is not one of ", known);
}

absl::Status FaultInjector::Configure(const std::string& text) {
  std::vector<Fault> faults;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(',', begin);
    if (end == std::string::npos) end = text.size();
    ASSIGN_OR_RETURN(const Fault fault, Parse(text.substr(begin, end - begin)));
    faults.push_back(fault);
    begin = end + 1;
  }
  std::lock_guard lock(mutex_);
  faults_ = std::move(faults);
  counts_.fill(0);
  active_.store(!faults_.empty());
  return absl::OkStatus();
}

synStatus FaultInjector::CheckActive(FaultPoint point) {
  std::lock_guard lock(mutex_);
  const uint64_t occurrence = ++counts_[static_cast<int>(point)];
  for (const Fault& fault : faults_) {
    if (fault.point == point && (fault.occurrence == 0 || fault.occurrence == occurrence)) {
      return Fail(fault.status, "injected fault at ", kPointNames[static_cast<int>(point)],
                  " number ", occurrence, " (HPU_EMULATOR_FAULTS)");
    }
  }
  return synSuccess;
}

}  // namespace hpu::emulator
