// Arithmetic on dimension lists: merging dimensions so that a kernel of limited rank can run, and
// following views through memory. PyTorch order throughout.
#pragma once

#include <optional>
#include <vector>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

// Ranks that nodes accept (Gaudi: vector and matrix kernels 5, movement 8).
inline constexpr int kMaxKernelRank = 5;
inline constexpr int kMaxMovementRank = 8;

// sizes[0] is the broadcast of all. Merges neighbouring dimensions that broadcast alike in every
// list; the results have equal rank and broadcast as before. Size-1 dimensions of sizes[0] vanish.
std::vector<ir::Dims> MergeBroadcastDims(const std::vector<ir::Dims>& sizes);

// A permutation with neighbours that stay together merged: the merged sizes and the permutation of
// them. Size-1 dimensions vanish.
struct MergedPermutation {
  ir::Dims sizes;
  ir::Dims perm;
};
MergedPermutation MergePermutation(const ir::Dims& sizes, const ir::Dims& perm);

// The product of sizes[begin, end).
int64_t Product(const ir::Dims& sizes, size_t begin, size_t end);

// [before, sizes[dim], after]: what lies outside and inside one dimension, each as one.
ir::Dims AroundDim(const ir::Dims& sizes, int64_t dim);

}  // namespace hpu::compiler
