#include "synapse/loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace hpu {
namespace {

template <typename Pointer>
void Resolve(void* library, const char* name, Pointer* pointer) {
  *pointer = reinterpret_cast<Pointer>(dlsym(library, name));
}

absl::StatusCode CodeOf(synStatus status) {
  switch (status) {
    case synInvalidArgument:
    case synInvalidTensorDimensions:
    case synInvalidTensorProperties:
    case synFailedSectionValidation:
    case synMappingNotFound:
      return absl::StatusCode::kInvalidArgument;
    case synOutOfHostMemory:
    case synOutOfDeviceMemory:
    case synFailedToAllocateDeviceMemory:
    case synAllResourcesTaken:
    case synOutOfResources:
      return absl::StatusCode::kResourceExhausted;
    case synUnsupported:
      return absl::StatusCode::kUnimplemented;
    case synWrongParamsFile:
      return absl::StatusCode::kDataLoss;
    case synNoDeviceFound:
    case synDeviceReset:
    case synBusy:
    case synUnavailable:
      return absl::StatusCode::kUnavailable;
    case synDeviceAlreadyAcquired:
    case synNameIsAlreadyUsed:
    case synAlreadyInitialized:
      return absl::StatusCode::kAlreadyExists;
    case synUninitialized:
    case synObjectAlreadyInitialized:
    case synObjectNotInitialized:
    case synDeviceTypeMismatch:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

bool SynapseFunctions::HasCapability(synEmulatorCapability capability) const {
  uint64_t capabilities = 0;
  return synEmulatorGetCapabilities != nullptr &&
         synEmulatorGetCapabilities(&capabilities) == synSuccess &&
         (capabilities & capability) != 0;
}

bool SynapseFunctions::host_addressable() const {
  return HasCapability(SYN_EMULATOR_HOST_ADDRESSABLE);
}

void SynapseFunctions::HideExtensions() {
#define SYN_FUNCTION(name, required, since)
#define SYN_EMULATOR_FUNCTION(name, strict) \
  if (!(strict)) this->name = nullptr;
#include "synapse/functions.inc"
#undef SYN_FUNCTION
#undef SYN_EMULATOR_FUNCTION
}

absl::StatusOr<SynapseFunctions> OpenSynapse(const std::string& path) {
  // The library is never closed, because its recipes and threads may outlive every caller.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return NotFound("cannot open the Synapse library \"", path, "\": ", dlerror(), " (set ",
                    kSynapseLibraryVariable, " to the file to use)");
  }
  SynapseFunctions functions;
  std::string missing;
#define SYN_FUNCTION(name, required, since) \
  Resolve(library, #name, &functions.name); \
  if ((required) && functions.name == nullptr) missing += " " #name;
#define SYN_EMULATOR_FUNCTION(name, strict) Resolve(library, #name, &functions.name);
#include "synapse/functions.inc"
#undef SYN_FUNCTION
#undef SYN_EMULATOR_FUNCTION
  if (!missing.empty()) {
    return Error(absl::StatusCode::kFailedPrecondition, "the Synapse library \"", path,
                 "\" lacks required functions:", missing);
  }
  if (functions.HasCapability(SYN_EMULATOR_STRICT)) functions.HideExtensions();
  functions.path = path;
  return functions;
}

absl::StatusOr<const SynapseFunctions*> LoadSynapse(const std::string& packaged_path) {
  static std::mutex* mutex = new std::mutex;
  static const SynapseFunctions* loaded = nullptr;
  std::lock_guard lock(*mutex);
  if (loaded != nullptr) return loaded;
  const char* variable = std::getenv(kSynapseLibraryVariable);
  const std::string path = variable != nullptr && *variable != '\0' ? variable
                           : !packaged_path.empty()                 ? packaged_path
                                                                    : "libSynapse.so";
  ASSIGN_OR_RETURN(SynapseFunctions functions, OpenSynapse(path));
  loaded = new SynapseFunctions(std::move(functions));
  return loaded;
}

std::string FolderOf(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string file = info.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

absl::Status ToStatus(const SynapseFunctions& functions, synStatus status, const char* call) {
  if (status == synSuccess) return absl::OkStatus();
  // This is read first, because the message lasts only until the thread's next call.
  const char* detail =
      functions.synGetLastErrorMessage != nullptr ? functions.synGetLastErrorMessage() : nullptr;
  std::string text = detail != nullptr ? detail : "";
  char brief[STATUS_DESCRIPTION_MAX_SIZE + 1] = "";
  if (functions.synStatusGetBriefDescription(status, brief, sizeof(brief)) != synSuccess) {
    brief[0] = '\0';
  }
  return Error(CodeOf(status), call, ": status ", static_cast<int>(status), " (", brief, ")",
               text.empty() ? "" : ": ", text);
}

}  // namespace hpu
