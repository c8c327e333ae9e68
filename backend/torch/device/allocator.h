// Device and pinned memory for PyTorch over backend/runtime.
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>

#include "backend/runtime/device.h"

namespace hpu::torch_backend {

// The device is 0 everywhere: one device per process.
inline const c10::Device kHpuDevice{c10::DeviceType::HPU, 0};

// Storage of tensors on hpu; allocated for the current stream. A DataPtr of 0 bytes is null.
c10::DeviceAllocator& GetDeviceAllocator();

// Pinned CPU storage (pin_memory=True).
at::HostAllocator& GetPinnedAllocator();

// Registers both with PyTorch.
void RegisterAllocators();

// The acquired device and the calling thread's stream on it; throw where that fails.
runtime::Device& AcquiredDevice();
runtime::Stream& CurrentStream();
runtime::Stream& StreamOf(c10::Stream stream);

// Block behind a DataPtr of ours, or null (empty, foreign, or not the start of a block).
runtime::DeviceBlock* BlockOf(const c10::DataPtr& data);

inline uint64_t AddressOf(const void* data) { return reinterpret_cast<uintptr_t>(data); }

}  // namespace hpu::torch_backend
