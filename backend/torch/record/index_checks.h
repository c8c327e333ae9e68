// Operators that read or write elements at positions given by a tensor. On hpu, as on a card, a
// position outside of its dimension is no error: a read gives some element, and a write writes
// nothing. The CPU's kernels raise an error, so a call with such a position is never theirs.
// PT_HPU_CHECK_INDICES=1 makes it an error for people who look for one.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

class IndexCheck {
 public:
  // Returns nullopt if the operator takes no such tensor.
  static std::optional<IndexCheck> Of(const c10::FunctionSchema& schema);

  // Waits for the index tensors. Returns "index 7 at position 2 of its tensor is outside of
  // dimension 0, which has 4 elements" for the first one that is, else "".
  std::string FindOutside(c10::ArrayRef<c10::IValue> arguments) const;

 private:
  size_t table_ = 0;           // the argument whose elements are read or written
  size_t index_ = 0;           // the argument with a tensor, or a list of one for each dimension
  std::optional<size_t> dim_;  // the argument with the dimension
  std::optional<size_t> ignored_;  // the argument with a class that counts for nothing
  bool flat_ = false;              // positions count all elements
  bool wraps_ = false;             // negative positions count from the end
};

// Whether PT_HPU_CHECK_INDICES is set; it is read once.
bool WantsIndexChecks();

}  // namespace hpu::torch_backend
