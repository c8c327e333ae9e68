// Arithmetic on lists of dimensions: merges dimensions so that a kernel of limited rank can run,
// and follows views through memory. The order is PyTorch's throughout.
#pragma once

#include <optional>
#include <vector>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

// The ranks that nodes accept (Gaudi: 5 for vector and matrix kernels, 8 for movement).
inline constexpr int kMaxKernelRank = 5;
inline constexpr int kMaxMovementRank = 8;

// sizes[0] is the sizes that all others broadcast to. Merges neighbouring dimensions that broadcast
// alike in every list. The results have equal rank and broadcast as before. Dimensions of size 1 in
// sizes[0] are removed.
std::vector<ir::Dims> MergeBroadcastDims(const std::vector<ir::Dims>& sizes);

// A permutation in which neighbours that stay together are merged: the merged sizes and their
// permutation. Dimensions of size 1 are removed.
struct MergedPermutation {
  ir::Dims sizes;
  ir::Dims perm;
};
MergedPermutation MergePermutation(const ir::Dims& sizes, const ir::Dims& perm);

// The product of sizes[begin, end).
int64_t Product(const ir::Dims& sizes, size_t begin, size_t end);

// Returns [before, sizes[dim], after]: the dimensions outside and inside `dim`, each merged into
// one.
ir::Dims AroundDim(const ir::Dims& sizes, int64_t dim);

}  // namespace hpu::compiler
