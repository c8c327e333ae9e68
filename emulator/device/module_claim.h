// The emulated modules of this host, and which of them this process holds.
//
// A claim is an abstract Unix socket with the module's number in its name. The system drops it when
// the process ends in whatever way, and no file is left behind. Network namespaces have modules of
// their own, as hosts do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace hpu::emulator {

// Returns the numbers of the modules that this process may use: those below HPU_EMULATOR_MODULES
// (8 by default) that HABANA_VISIBLE_MODULES and HABANA_VISIBLE_DEVICES name. INVALID_ARGUMENT: one
// of the variables is no list of numbers.
absl::StatusOr<std::vector<uint32_t>> VisibleModules();

// Returns the bus address of a module.
std::string BusOf(uint32_t module);

class ModuleClaim {
 public:
  // Claims `wanted`, or without it the first visible module that is free. NOT_FOUND: there is no
  // such module. RESOURCE_EXHAUSTED: other processes hold it, or all of them.
  static absl::StatusOr<ModuleClaim> Claim(std::optional<uint32_t> wanted);
  ~ModuleClaim() { Drop(); }
  ModuleClaim(ModuleClaim&& other) noexcept;
  ModuleClaim& operator=(ModuleClaim&& other) noexcept;
  ModuleClaim(const ModuleClaim&) = delete;
  ModuleClaim& operator=(const ModuleClaim&) = delete;

  uint32_t module() const { return module_; }
  // Gives the module back. A forked child calls it, so that it does not hold its parent's module.
  void Drop();

 private:
  ModuleClaim(uint32_t module, int socket) : module_(module), socket_(socket) {}
  uint32_t module_ = 0;
  int socket_ = -1;
};

}  // namespace hpu::emulator
