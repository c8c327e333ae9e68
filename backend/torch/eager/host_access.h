// CPU tensors over the memory of hpu tensors, for running CPU kernels on them.
//
// Where device memory is host memory (the emulator) the CPU tensors share it and nothing is copied.
// On a card each storage is copied to the host once, and copied back by Finish() if it was written.
// Either way views, in-place writes, out= and lists keep their meaning: tensors that share a
// storage on the device share one here. The CPU tensors must not be used after this object's life.
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "backend/runtime/direct_access.h"
#include "backend/runtime/stream.h"

namespace hpu::torch_backend {

class HostAccess {
 public:
  // The first ToHost waits for the current stream.
  HostAccess();
  ~HostAccess();
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;

  // Returns a CPU tensor with the same sizes, strides, offset, dtype and memory as `tensor`.
  // `written` says that its elements will be changed.
  at::Tensor ToHost(const at::Tensor& tensor, bool written);

  // Returns whether CPU tensors share the memory of hpu tensors, after waiting for the current
  // stream.
  bool SharesMemory() const;

  // Returns an hpu tensor for a CPU tensor that came out of a kernel: a view if it lies in a
  // storage of this object, else a new tensor with its memory (result_memory.h) or with a copy of
  // the data; sizes and strides are the same.
  at::Tensor ToDevice(const at::Tensor& host);

  // Call this after the kernel for each tensor that it may have resized (`host` is the result of
  // ToHost).
  void TakeResize(const at::Tensor& host, const at::Tensor& tensor);

  // Makes the written bytes visible to the device. Call it once, after the kernel.
  void Finish();

 private:
  struct Shared {
    c10::Storage device;
    c10::Storage host;
    at::Tensor shell;                             // the first CPU tensor over `host`
    std::optional<runtime::DirectAccess> access;  // set where memory is shared
    // The data of `host` at the start; a different pointer later means that it was resized.
    void* data = nullptr;
    bool written = false;
  };

  // Makes the CPU tensor for the first tensor of a storage.
  Shared& Share(const at::Tensor& tensor, bool written);
  // Waits until the host may use the storage.
  void Wait(const c10::Storage& storage, bool written);
  Shared* FindDevice(const c10::StorageImpl* device);
  const Shared* FindHost(const c10::StorageImpl* host) const;

  const runtime::QueueingCall queueing_;
  c10::SmallVector<Shared, 4> shared_;
};

}  // namespace hpu::torch_backend
