#include "backend/torch/device/cuda_wheel.h"

#include <cstdlib>
#include <memory>
#include <string_view>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

bool Allowed() {
  const char* value = std::getenv("HPU_REPLACE_CUDA_HOOKS");
  return value == nullptr || std::string_view(value) != "0";
}

}  // namespace

void StepInForCudaWithoutDevice() {
  const at::CUDAHooksInterface& built = at::detail::getCUDAHooks();
  if (!built.isBuilt() || built.deviceCount() > 0 || !Allowed()) return;
  // PyTorch keeps one hooks object for ever and hands out references to it, so another one can only
  // replace it in place. CUDAHooks has no members; its base is the CPU wheel's hooks.
  static_assert(sizeof(at::CUDAHooksInterface) == sizeof(void*));
  std::construct_at(const_cast<at::CUDAHooksInterface*>(&built));
}

}  // namespace hpu::torch_backend
