// Operators of user code that write to their arguments, in captured graphs. A graph has no writes
// but those to its inputs, so a call of such an operator stands for what it computes: its results
// are those of the operator, followed by the values that the written arguments have after the call,
// in their order. The arguments keep the values that they had before it.
#pragma once

#include <algorithm>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

inline bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Returns whether the operator writes to arguments, and returns none of them. An operator that does
// (aten::copy_) writes in a graph, too.
inline bool ResultsHoldWrites(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), IsWritten) &&
         std::ranges::none_of(schema.returns(), [](const c10::Argument& returned) {
           return returned.alias_info() != nullptr;
         });
}

}  // namespace hpu::torch_backend
