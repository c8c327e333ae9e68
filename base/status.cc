#include "base/status.h"

#include <cstdio>
#include <cstdlib>

namespace hpu {

absl::Status Annotate(const absl::Status& status, const std::string& context) {
  if (status.ok()) return status;
  const auto message = status.message();
  absl::Status annotated(status.code(),
                         context + ": " + std::string(message.data(), message.size()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

std::string ToText(const absl::Status& status) {
  const auto text = status.ToString(absl::StatusToStringMode::kWithNoExtraData);
  return std::string(text.data(), text.size());
}

void CheckFailed(const char* condition, const char* file, int line, const char* text) {
  std::fprintf(stderr, "%s:%d: check failed: %s %s\n", file, line, condition, text);
  std::abort();
}

}  // namespace hpu
