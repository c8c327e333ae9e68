// Opens the Synapse library at run time: Intel's where HPU_SYNAPSE_LIBRARY names it, else the
// emulator that is packaged with us. Callers use the pointers below and never link the library.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "synapse/include/hccl.h"
#include "synapse/include/synapse_api.h"
#include "synapse/include/synapse_emulator.h"

namespace hpu {

// Has one pointer per row of functions.inc, with the name of the function:
// `functions->synLaunch(...)`.
struct SynapseFunctions {
#define SYN_FUNCTION(name, required, since) decltype(&::name) name = nullptr;
#define SYN_EMULATOR_FUNCTION(name, strict) decltype(&::name) name = nullptr;
#include "synapse/functions.inc"
#undef SYN_FUNCTION
#undef SYN_EMULATOR_FUNCTION

  std::string path;  // of the library that was opened

  // Returns whether the library is the emulator, that is, has the functions of synapse_emulator.h.
  bool is_emulator() const { return synEmulatorGetCapabilities != nullptr; }
  // Returns whether device addresses are host pointers; see SYN_EMULATOR_HOST_ADDRESSABLE.
  bool host_addressable() const;

 private:
  friend absl::StatusOr<SynapseFunctions> OpenSynapse(const std::string& path);
  bool HasCapability(synEmulatorCapability capability) const;
  // Leaves only the extensions that strict mode has.
  void HideExtensions();
};

inline constexpr char kSynapseLibraryVariable[] = "HPU_SYNAPSE_LIBRARY";

// Returns the library of this process, which the first successful call opens and which stays open
// for the process's lifetime; later calls return the same table whatever they pass. The order is:
// the environment variable HPU_SYNAPSE_LIBRARY, then `packaged_path` (the emulator next to the
// calling module), then the dynamic linker's search for "libSynapse.so". Only the first of these
// that is given is tried, so that a wrong setting is an error and not a silent fallback.
// Thread-safe.
//
// Returns NOT_FOUND if the library cannot be opened, and FAILED_PRECONDITION if it was opened but
// lacks required functions; the message names each of them.
absl::StatusOr<const SynapseFunctions*> LoadSynapse(const std::string& packaged_path = "");

// Does the same for a given file, without the process-wide table (for tests and tools).
absl::StatusOr<SynapseFunctions> OpenSynapse(const std::string& path);

// Returns the folder of the shared object or program that contains `address`; empty if unknown. A
// module finds its packaged emulator with FolderOf(reinterpret_cast<const void*>(&SomeFunction)).
std::string FolderOf(const void* address);

// Returns OK, or the library's text for `status` with its last error message: "synLaunch: 26 ...:
// details".
absl::Status ToStatus(const SynapseFunctions& functions, synStatus status, const char* call);

}  // namespace hpu
