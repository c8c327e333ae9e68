// The result types and constraints of every op. This is the only place that knows them: Builder
// asks it for types, and the verifier asks whether a node's types are those that it infers.
// Messages begin with the label of the broken constraint, "[matmul_c2]" (docs/ir.md lists them).
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

// `declared` is the result type for ops whose attributes do not determine it (reshape, expand,
// cast, as_strided, full, iota, adaptive_avg_pool, resize); for all others it may be nullptr. kAten
// is not allowed, because the capture gives its result types.
absl::StatusOr<std::vector<TensorType>> InferTypes(OpKind op, std::span<Value* const> operands,
                                                   const Attrs& attrs, const TensorType* declared);

// Checks that attributes and operand count fit the op's row.
absl::Status CheckForm(OpKind op, std::span<Value* const> operands, const Attrs& attrs);

// The number of positions of a sliding window along one dimension (convolution, pooling).
int64_t WindowPositions(int64_t size, int64_t low, int64_t high, int64_t kernel, int64_t stride,
                        int64_t dilation, bool ceil);

}  // namespace hpu::ir
