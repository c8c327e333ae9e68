// Cuts a function with donated inputs into parts, which are recipes of their own and run one after
// the other. Memory that a part is the last to read is released before the next part runs, and the
// results of a part take memory only from then on. Without this, a backward would hold all that the
// forward saved together with all gradients.
//
// The balance measure is the number of bytes (donated inputs and storages) whose lifetime begins or
// ends in a part. All parts have about the same number, and each ends where the fewest bytes cross
// to the next. Between two layers that is the gradient that one passes to the other, so equal
// layers give equal recipes.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

class SegmentPlan;

// The share of a part is all bytes divided by kParts, and at least kLeastPartBytes, because a
// launch takes microseconds and filling and reading 1 MiB of memory takes about a hundred. Parts
// have between 1/2 and 3/2 of their share, or more where no place is narrow.
inline constexpr int64_t kParts = 12;
inline constexpr int64_t kLeastPartBytes = 1 << 20;

// Returns, by position in the graph's order, the part of the node: 0, 1, 2 and so on. The operands
// of a node are made in its own part or an earlier one. All are 0 where the function stays whole.
// The number of a node that is free in `plan` has no meaning.
std::vector<uint32_t> PlanParts(const ir::Graph& graph, const SegmentPlan& plan,
                                int64_t least_part_bytes = kLeastPartBytes);

}  // namespace hpu::compiler
