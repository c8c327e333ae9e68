// The libraries of custom kernels (hpu_custom_kernel.h) that GC_KERNEL_PATH names. Only a process
// that launches recipes, or one that asks for a guid's version, opens them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "synapse/include/hpu_custom_kernel.h"

namespace hpu::emulator {

inline constexpr char kKernelPathVariable[] = "GC_KERNEL_PATH";

// A library of the path: its kernels, or the reason why it has none.
struct KernelLibrary {
  std::string path;
  std::string problem;                        // empty if it was opened
  const HpuKernelLibrary* library = nullptr;  // never closed
};

// Thread-safe.
class KernelLibraries {
 public:
  static KernelLibraries& Get();

  // Returns the first kernel with this guid in the order of the path, or null.
  const HpuKernel* Find(const std::string& guid);
  // Returns the kernel with guid and version. NOT_FOUND: no library has the guid.
  // FAILED_PRECONDITION: those that have it have other versions. The message says what is in each
  // library of the path.
  absl::StatusOr<const HpuKernel*> Find(const std::string& guid, uint32_t version);
  // Returns a line "guid version" for each kernel, in the order of the path.
  std::string List();

 private:
  struct Opened {
    std::string path;  // the variable's value
    std::vector<KernelLibrary> libraries;
  };

  // Opens what the variable names now, if that differs from the last call.
  std::shared_ptr<const Opened> Open();
  static std::string Describe(const Opened& opened);

  std::mutex mutex_;
  std::shared_ptr<const Opened> opened_ = std::make_shared<const Opened>();
};

}  // namespace hpu::emulator
