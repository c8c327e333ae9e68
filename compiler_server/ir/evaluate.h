// Evaluates single nodes with plain loops in double precision. Used by the reference interpreter
// (tests) and by constant folding (small tensors).
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "compiler_server/ir/host_tensor.h"

namespace hpu::ir {

// operands[i] is nullptr where the node's operand is absent. The node must have been verified.
// Returns UNIMPLEMENTED for aten nodes and for types without host arithmetic.
absl::StatusOr<std::vector<HostTensor>> EvaluateNode(const Node& node,
                                                     std::span<const HostTensor* const> operands);

namespace evaluate {

// Each family of ops has one function, which fills results that already have the declared sizes and
// types.
using Operands = std::span<const HostTensor* const>;
void Elementwise(const Node& node, Operands in, HostTensor& out);
void Movement(const Node& node, Operands in, HostTensor& out);
void Reduce(const Node& node, Operands in, HostTensor& out);
void Scan(const Node& node, Operands in, std::vector<HostTensor>& out);
void Normalize(const Node& node, Operands in, HostTensor& out);
void Contract(const Node& node, Operands in, std::vector<HostTensor>& out);
void Convolution(const Node& node, Operands in, HostTensor& out);
void Window(const Node& node, Operands in, HostTensor& out);
// The numbers of HostTensors are doubles, so seeds and offsets must be below 2^53.
void Random(const Node& node, Operands in, HostTensor& out);
// It also evaluates topk, whose second result is `out[1]`.
absl::Status Index(const Node& node, Operands in, std::vector<HostTensor>& out);

}  // namespace evaluate
}  // namespace hpu::ir
