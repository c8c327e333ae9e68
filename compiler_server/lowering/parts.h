// Cuts a function with donated inputs into parts, which are recipes of their own and run one
// after the other: what a part reads last is given back before the next one runs, and what a part
// makes exists from then on only. Without it a backward holds all that the forward saved beside all
// gradients.
//
// Bytes whose life begins or ends, donated inputs and storages, are the measure: a part has about
// as many as any other, and it ends where the fewest bytes cross to the next. Between two layers
// that is the gradient of what one hands to the other, so equal layers give equal recipes.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

class SegmentPlan;

// A part's share is all bytes over kParts, but the least that is worth a launch (a launch takes
// microseconds, 1 MiB of memory about a hundred to fill and read). Parts have between 1/2 and
// 3/2 of it, or more where no place is narrow.
inline constexpr int64_t kParts = 12;
inline constexpr int64_t kLeastPartBytes = 1 << 20;

// By position in the graph's order: the part of the node, 0, 1, 2...; a node's operands are made in
// its own part or an earlier one. All 0 where the function stays whole. What is free in `plan` gets
// a number without a meaning.
std::vector<uint32_t> PlanParts(const ir::Graph& graph, const SegmentPlan& plan,
                                int64_t least_part_bytes = kLeastPartBytes);

}  // namespace hpu::compiler
