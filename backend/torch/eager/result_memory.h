// Memory for the results of CPU kernels that run on the device's memory: they are made in device
// memory, so that they become tensors on hpu without a copy.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace hpu::torch_backend {

// While this object lives, CPU tensors that this thread makes are in device memory. The owner must
// have waited for the current stream, because the memory may have been given back in stream order.
class ResultMemory {
 public:
  ResultMemory();
  ~ResultMemory();
  ResultMemory(const ResultMemory&) = delete;
  ResultMemory& operator=(const ResultMemory&) = delete;

 private:
  const bool before_;
};

// Takes the memory of a CPU tensor that was made under ResultMemory and returns it as a storage of
// hpu. Returns nothing, and takes nothing, for other memory and for memory that other tensors use.
std::optional<c10::Storage> TakeResultMemory(const at::Tensor& host);

}  // namespace hpu::torch_backend
