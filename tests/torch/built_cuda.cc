// Makes PyTorch's CPU wheel behave like its CUDA wheel on a host without a driver.
#include <ATen/detail/CUDAHooksInterface.h>

#include <memory>

namespace {

[[noreturn]] void NoDriver() { TORCH_CHECK(false, "no CUDA driver"); }

struct BuiltCuda final : at::CUDAHooksInterface {
  bool isBuilt() const override { return true; }
  bool hasCUDA() const override { return true; }
  at::DeviceIndex deviceCount() const override { return 0; }
  at::DeviceIndex getCurrentDevice() const override { NoDriver(); }
  at::DeviceIndex exchangeDevice(at::DeviceIndex /*index*/) const override { NoDriver(); }
  at::Allocator* getPinnedMemoryAllocator() const override { NoDriver(); }
};

}  // namespace

// Call this before habana_frameworks.torch is imported. The hooks object has no members of its own.
extern "C" __attribute__((visibility("default"))) void build_cuda() {
  static_assert(sizeof(BuiltCuda) == sizeof(at::CUDAHooksInterface));
  new (const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks())) BuiltCuda;
}
