// Operators that have their own implementation on hpu: allocation, metadata, copies, fills. All
// others are in fallback.cc.
#pragma once

#include <ATen/ATen.h>

namespace hpu::torch_backend {

// Grows or shrinks the memory of an hpu storage and keeps the bytes that fit.
void ResizeStorage(c10::StorageImpl* storage, size_t bytes);

// Gives an hpu tensor other sizes, and memory if it has too little. Without strides it becomes
// contiguous.
void ResizeTensor(c10::TensorImpl* tensor, at::IntArrayRef size, at::OptionalIntArrayRef stride);

// Returns a storage of `bytes` uninitialised bytes.
c10::Storage NewStorage(size_t bytes);

}  // namespace hpu::torch_backend
