// Opens the Synapse library at run time: Intel's where HPU_SYNAPSE_LIBRARY names it, else the
// emulator that is packaged with us. Callers use the pointers below and never link the library.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "synapse/include/hccl_api.h"
#include "synapse/include/synapse_api.h"
#include "synapse/include/synapse_emulator.h"

namespace hpu {

// One pointer per row of functions.inc, named as the function: `functions->synLaunch(...)`.
struct SynapseFunctions {
#define SYN_FUNCTION(name, required, since) decltype(&::name) name = nullptr;
#define SYN_EMULATOR_FUNCTION(name) decltype(&::name) name = nullptr;
#include "synapse/functions.inc"
#undef SYN_FUNCTION
#undef SYN_EMULATOR_FUNCTION

  std::string path;  // of the library that was opened

  // True when the library is the emulator, i.e. has the functions of synapse_emulator.h.
  bool is_emulator() const { return synEmulatorGetCapabilities != nullptr; }
  // Device addresses are host pointers; see SYN_EMULATOR_HOST_ADDRESSABLE.
  bool host_addressable() const;
};

inline constexpr char kSynapseLibraryVariable[] = "HPU_SYNAPSE_LIBRARY";

// The library of this process, opened by the first successful call and kept for its lifetime; later
// calls answer the same table whatever they pass. Order: the environment variable
// HPU_SYNAPSE_LIBRARY, then `packaged_path` (the emulator next to the calling module), then the
// dynamic linker's search for "libSynapse.so". Only the first of these that is given is tried, so
// that a wrong setting is an error and not a silent fallback. Thread-safe.
//
// NOT_FOUND: cannot be opened. FAILED_PRECONDITION: opened, but required functions are missing; the
// message names each of them.
absl::StatusOr<const SynapseFunctions*> LoadSynapse(const std::string& packaged_path = "");

// The same for a given file, without the process-wide table (tests, tools).
absl::StatusOr<SynapseFunctions> OpenSynapse(const std::string& path);

// Folder of the shared object or program that contains `address`; empty if unknown. A module finds
// its packaged emulator with FolderOf(reinterpret_cast<const void*>(&SomeFunction)).
std::string FolderOf(const void* address);

// OK, or the library's text for `status` with its last error message: "synLaunch: 26 ...: details".
absl::Status ToStatus(const SynapseFunctions& functions, synStatus status, const char* call);

}  // namespace hpu
