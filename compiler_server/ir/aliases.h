// Which ATen calls return memory of their first argument. PyTorch programs can see it: outputs that
// share memory must go on sharing it.
#pragma once

#include "compiler_server/ir/graph.h"

namespace hpu::ir {

// True if every result of the call is a view of operand 0 (or operand 0 itself). `result` is the
// type of the result in question: reshape, contiguous and to decide by strides and types.
bool AliasesFirstOperand(const AtenCall& call, const TensorType& operand, const TensorType& result);

// Strides with which memory laid out as `type` can be seen as `sizes`, if it can without a copy.
std::optional<Dims> ViewStrides(const TensorType& type, const Dims& sizes);

}  // namespace hpu::ir
