#include "emulator/graph/compiler_library.h"

#include <dlfcn.h>

#include <mutex>
#include <string>

namespace hpu::emulator {
namespace {

// Returns the path of the compiler in the folder of the library that contains this function.
std::string CompilerPath() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&CompilerPath), &info) == 0 ||
      info.dli_fname == nullptr) {
    return graph_compiler::kCompilerLibraryName;
  }
  const std::string own = info.dli_fname;
  const size_t slash = own.rfind('/');
  return (slash == std::string::npos ? "./" : own.substr(0, slash + 1)) +
         graph_compiler::kCompilerLibraryName;
}

}  // namespace

absl::StatusOr<const CompilerDoor*> OpenCompiler() {
  static std::mutex* mutex = new std::mutex;
  static const CompilerDoor* door = nullptr;
  std::lock_guard lock(*mutex);
  if (door != nullptr) return door;
  const std::string path = CompilerPath();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotFound("cannot open the graph compiler: ", dlerror());
  const auto open = reinterpret_cast<decltype(&HpuEmulatorCompilerDoor)>(
      dlsym(library, graph_compiler::kCompilerDoorSymbol));
  const CompilerDoor* opened = open == nullptr ? nullptr : open();
  if (opened == nullptr || opened->version != graph_compiler::kCompilerDoorVersion) {
    dlclose(library);
    return Error(absl::StatusCode::kFailedPrecondition, path,
                 " is not the graph compiler of this build (wanted version ",
                 graph_compiler::kCompilerDoorVersion, ")");
  }
  door = opened;
  return door;
}

}  // namespace hpu::emulator
