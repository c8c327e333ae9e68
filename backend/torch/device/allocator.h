// Device and pinned memory for PyTorch, on top of backend/runtime.
#pragma once

#include <cstdint>

#include "backend/runtime/device.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// The device is 0 everywhere: one device per process.
inline const c10::Device kHpuDevice{c10::DeviceType::HPU, 0};

// Throws for an index that no device of this host has. Every other index means the process's own
// device, because programs of several ranks name theirs by the rank.
void CheckDeviceIndex(c10::DeviceIndex index);

// Returns the allocator for storage of tensors on hpu, which allocates for the current stream. A
// DataPtr of 0 bytes is null.
c10::DeviceAllocator& GetDeviceAllocator();

// Returns the allocator for pinned CPU storage (pin_memory=True).
at::HostAllocator& GetPinnedAllocator();

// Registers both with PyTorch.
void RegisterAllocators();

// Return the acquired device and the calling thread's stream on it; they throw if that fails.
runtime::Device& AcquiredDevice();
runtime::Stream& CurrentStream();
runtime::Stream& StreamOf(c10::Stream stream);

// Returns the block behind one of our DataPtrs, or null (empty, foreign, or not the start of a
// block).
runtime::DeviceBlock* BlockOf(const c10::DataPtr& data);

inline uint64_t AddressOf(const void* data) { return reinterpret_cast<uintptr_t>(data); }

}  // namespace hpu::torch_backend
