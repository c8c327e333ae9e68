// Device rows in torch.profiler: ProfilerActivity.HPU. The bridge to Kineto, PyTorch's profiler.
#pragma once

namespace hpu::torch_backend {

// Makes the device known to Kineto. Once, when the module is loaded; costs nothing until a profile
// asks for ProfilerActivity.HPU.
void RegisterActivityProfiler();

}  // namespace hpu::torch_backend
