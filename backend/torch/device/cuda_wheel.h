#pragma once

namespace hpu::torch_backend {

// PyTorch's CUDA wheel names CUDA its accelerator, driver or not, and autograd, pinned memory and
// torch.Stream() then ask CUDA for streams and memory on behalf of hpu and fail. On a host without
// a CUDA device this gives PyTorch the answers of its CPU wheel. Without effect in the CPU wheel,
// where there is a CUDA device, with HPU_REPLACE_CUDA_HOOKS=0, and the second time. To be called
// at import, before other threads ask for accelerators.
void StepInForCudaWithoutDevice();

}  // namespace hpu::torch_backend
