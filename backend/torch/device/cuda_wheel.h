#pragma once

namespace hpu::torch_backend {

// PyTorch's CUDA wheel names CUDA as its accelerator, even without a driver. Autograd, pinned
// memory and torch.Stream() then ask CUDA for streams and memory on behalf of hpu and fail. On a
// host without a CUDA device, this function makes PyTorch behave like its CPU wheel. It has no
// effect in the CPU wheel, where there is a CUDA device, with HPU_REPLACE_CUDA_HOOKS=0, and when it
// is called again. Call it at import, before other threads ask for accelerators.
void StepInForCudaWithoutDevice();

}  // namespace hpu::torch_backend
