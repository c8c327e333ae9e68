#include "emulator/device/module_claim.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace hpu::emulator {
namespace {

constexpr uint32_t kDefaultModules = 8;  // of a server with Gaudi cards
constexpr uint32_t kMostModules = 65536;

absl::StatusOr<uint32_t> NumberOfModules() {
  const char* text = std::getenv("HPU_EMULATOR_MODULES");
  if (text == nullptr || *text == '\0') return kDefaultModules;
  uint32_t number = 0;
  const char* end = text + std::strlen(text);
  if (std::from_chars(text, end, number).ptr != end || number == 0 || number > kMostModules) {
    return InvalidArgument("HPU_EMULATOR_MODULES=", text, ": the value must be a number from 1 to ",
                           kMostModules);
  }
  return number;
}

// Keeps the modules that a variable names; without it, or with "all", it keeps all.
absl::Status Restrict(const char* variable, std::vector<uint32_t>* modules) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0' || std::string_view(text) == "all") return absl::OkStatus();
  std::vector<uint32_t> named;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    uint32_t number = 0;
    if (std::from_chars(part.data(), part.data() + part.size(), number).ptr !=
            part.data() + part.size() ||
        part.empty()) {
      return InvalidArgument(variable, "=", text,
                             ": the value must be \"all\" or numbers with commas between them");
    }
    named.push_back(number);
  }
  std::erase_if(*modules, [&](uint32_t module) {
    return std::find(named.begin(), named.end(), module) == named.end();
  });
  return absl::OkStatus();
}

// Returns the socket, or -1 with errno.
int TryClaim(uint32_t module) {
  const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract.
  const std::string name = "hpu-emulated-module-" + std::to_string(module);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(made, reinterpret_cast<const sockaddr*>(&address), length) == 0) return made;
  const int error = errno;
  close(made);
  errno = error;
  return -1;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> VisibleModules() {
  ASSIGN_OR_RETURN(const uint32_t number, NumberOfModules());
  std::vector<uint32_t> modules(number);
  for (uint32_t i = 0; i < number; ++i) modules[i] = i;
  RETURN_IF_ERROR(Restrict("HABANA_VISIBLE_MODULES", &modules));
  RETURN_IF_ERROR(Restrict("HABANA_VISIBLE_DEVICES", &modules));
  return modules;
}

std::string BusOf(uint32_t module) {
  char text[32];
  std::snprintf(text, sizeof(text), "%04x:%02x:00.0", module >> 8, module & 0xff);
  return text;
}

absl::StatusOr<ModuleClaim> ModuleClaim::Claim(std::optional<uint32_t> wanted) {
  ASSIGN_OR_RETURN(std::vector<uint32_t> candidates, VisibleModules());
  const size_t visible = candidates.size();
  if (wanted.has_value()) {
    std::erase_if(candidates, [&](uint32_t module) { return module != *wanted; });
    if (candidates.empty()) {
      return NotFound("there is no device in module ", *wanted, ": this host emulates ", visible,
                      " visible modules (HPU_EMULATOR_MODULES, HABANA_VISIBLE_MODULES, "
                      "HABANA_VISIBLE_DEVICES)");
    }
  }
  for (const uint32_t module : candidates) {
    const int made = TryClaim(module);
    if (made >= 0) return ModuleClaim(module, made);
    if (errno == EADDRINUSE) continue;
    return Error(absl::StatusCode::kResourceExhausted, "the emulated module ", module,
                 " cannot be claimed: ", std::strerror(errno));
  }
  if (visible == 0) {
    return NotFound(
        "no emulated module is visible: HABANA_VISIBLE_MODULES or HABANA_VISIBLE_DEVICES names "
        "none below HPU_EMULATOR_MODULES (8 unless it is set)");
  }
  if (wanted.has_value()) {
    return Error(absl::StatusCode::kResourceExhausted, "another process holds the emulated module ",
                 *wanted,
                 "; hl-smi says which, and HABANA_VISIBLE_MODULES names the modules that "
                 "ranks may use");
  }
  ASSIGN_OR_RETURN(const uint32_t number, NumberOfModules());
  if (visible < number) {
    return Error(absl::StatusCode::kResourceExhausted, "other processes hold the ", visible,
                 " emulated modules that HABANA_VISIBLE_MODULES or HABANA_VISIBLE_DEVICES names; "
                 "this host emulates ",
                 number);
  }
  return Error(absl::StatusCode::kResourceExhausted, "other processes hold all ", number,
               " emulated modules of this host; HPU_EMULATOR_MODULES=", 2 * number,
               " emulates more");
}

ModuleClaim::ModuleClaim(ModuleClaim&& other) noexcept
    : module_(other.module_), socket_(std::exchange(other.socket_, -1)) {}

ModuleClaim& ModuleClaim::operator=(ModuleClaim&& other) noexcept {
  if (this != &other) {
    Drop();
    module_ = other.module_;
    socket_ = std::exchange(other.socket_, -1);
  }
  return *this;
}

void ModuleClaim::Drop() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

}  // namespace hpu::emulator
