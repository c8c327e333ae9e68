// Device rows in torch.profiler (ProfilerActivity.HPU): the bridge to Kineto, PyTorch's profiler.
#pragma once

namespace hpu::torch_backend {

// Registers the device with Kineto. Call it once, when the module is loaded; it costs nothing until
// a profile asks for ProfilerActivity.HPU.
void RegisterActivityProfiler();

}  // namespace hpu::torch_backend
