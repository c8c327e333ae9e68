// A library of custom kernels in C++ whose functions throw.
#include <hpu_custom_kernel.h>

#include <stdexcept>

namespace {

int32_t ThrowText(const HpuKernelCall* /*call*/) { throw std::runtime_error("no such thing"); }
int32_t ThrowNumber(const HpuKernelCall* /*call*/, uint64_t* /*tasks*/) { throw 5; }

}  // namespace

extern "C" const HpuKernelLibrary* hpu_kernel_library() {
  static const HpuKernel kernels[] = {
      {.guid = "test_throw", .version = 1, .prepare = nullptr, .run = ThrowText},
      {.guid = "test_throw_early", .version = 1, .prepare = ThrowNumber, .run = ThrowText},
  };
  static const HpuKernelLibrary library = {.abi_version = HPU_KERNEL_ABI_VERSION,
                                           .kernel_count = 2,
                                           .name = "throwing",
                                           .kernels = kernels};
  return &library;
}
