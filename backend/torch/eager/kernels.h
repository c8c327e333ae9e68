// Operators with code of their own on hpu: allocation, metadata, copies, fills. Everything else is
// in fallback.cc.
#pragma once

#include <ATen/ATen.h>

namespace hpu::torch_backend {

// Grows or shrinks the memory of a hpu storage, keeping the bytes that fit.
void ResizeStorage(c10::StorageImpl* storage, size_t bytes);

// A storage of `bytes` uninitialised bytes.
c10::Storage NewStorage(size_t bytes);

}  // namespace hpu::torch_backend
