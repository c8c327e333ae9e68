// Kernels that rearrange operands. Weights go into panels once, and the device keeps them. Operands
// that change from launch to launch are rearranged by launches of their own, into workspace: B into
// panels, A into rows.
#pragma once

#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/tiles/specs.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {

// B[batch][k][n] becomes [batch][panel][k][panel_cols], and columns beyond n are 0. kBF16Vectors
// needs an even number of vectors per panel, kBF16Pairs fills up an odd k; both need a source of
// bf16. Broadcast batch dimensions are packed once. `outer_k` are further k dimensions around the
// rows of B (kernel taps), outermost first: k of a panel runs over outer_k, then `k`.
struct PanelFormat {
  int64_t panel_cols = 0;
  PanelType packed_type = PanelType::kF32;
  std::vector<int64_t> outer_k_sizes = {};
  std::vector<int64_t> outer_k_strides = {};  // elements of B
  int64_t filled_k = 0;                       // kBF16Pairs: zeros follow the rows of B up to this k
};
PackedOperand EmitPanelPacking(KernelCache& cache, const std::vector<int64_t>& batch,
                               const MatrixAccess& b, int64_t k, int64_t n, PanelFormat format);

// Makes the same panels of a B that changes from launch to launch, by a launch that is appended to
// `out`. Returns where they are.
OperandRef StagePanels(KernelCache& cache, const std::vector<int64_t>& batch, const MatrixAccess& b,
                       int64_t k, int64_t n, PanelFormat format, EmittedKernels& out);

// The batch dimensions that are not broadcast.
struct DenseBatch {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // of the source, elements
  int64_t count = 1;
};
DenseBatch DenseDimensions(const std::vector<int64_t>& batch, const std::vector<int64_t>& strides);

// Returns the strides of a dense array over the batch dimensions that `strides` does not broadcast,
// in units of one matrix; `count` receives the number of matrices.
std::vector<int64_t> DenseBatchStrides(const std::vector<int64_t>& batch,
                                       const std::vector<int64_t>& strides, int64_t* count);

// Reserves extra workspace for a staged operand.
OperandRef ReserveStaged(uint64_t bytes, EmittedKernels& out);

// Replaces `a` by an f32 copy with contiguous rows in extra workspace. A launch that is appended to
// `out` makes the copy.
void StageRows(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows, int64_t cols,
               MatrixAccess& a, EmittedKernels& out);
// Replaces `a` likewise by a dense f32 copy in panels of row tiles. Where rows of `a` lie across
// memory, neighbouring elements stay neighbours, and nothing is transposed. The row stride of the
// copy is the stride between panels, per row.
void StageRowPanels(KernelCache& cache, const std::vector<int64_t>& batch, const RowTiles& tiles,
                    int64_t k, MatrixAccess& a, EmittedKernels& out);
// Replaces `a` likewise by a copy in bf16, which its type must be already, with zeros after each
// row up to `filled_cols`, an even number.
void StagePairs(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows, int64_t cols,
                int64_t filled_cols, MatrixAccess& a, EmittedKernels& out);
// Does the same for a matrix of u8 for products of integers (int8.h), filled up with `a_zero`.
// `dense` means that rows follow each other without a gap.
struct IntegerRows {
  PanelType type = PanelType::kI8Quads;
  int64_t filled_cols = 0;
  int64_t a_zero = 0;
  bool dense = false;
};
void StageIntegers(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows,
                   int64_t cols, const IntegerRows& form, MatrixAccess& a, EmittedKernels& out);

}  // namespace hpu::graph_compiler
