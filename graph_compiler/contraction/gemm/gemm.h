// Matrix products: chooses a form and emits it. The forms are:
//
//   tiled        register tiles over (m, n); B in panels: packed once if it is stable, else staged
//                by a launch (pairs of bf16, or many rows), else packed by the task that uses it,
//                else (little reuse) read in place
//   row streams  m <= 4, rows of B contiguous: B is read once, in place, at memory speed
//   dot products m <= 4, columns of B contiguous (the weight of nn.Linear): likewise
//
// A matrix times a vector is transposed first, so that it takes one of the last two forms. Those
// need no packed copy, so a model that only decodes never holds its weights twice.
#pragma once

#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/specs.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {

absl::StatusOr<EmittedKernels> EmitGemmKernels(KernelCache& cache, const GemmSpec& spec);

// A product whose operands lie where kernels can read them: offsets are folded into the references;
// A is f32, or bf16 (streams), or dwords of pairs of bf16 or of 8-bit integers (tiles, int8.h), in
// which case k and the strides of A count dwords. The epilogue's operand numbers refer to
// `operands`; 0 is A, 1 is B, and where zeros.has_b() 2 is the zero points of B.
struct BoundGemm {
  std::vector<int64_t> batch;
  int64_t m = 0, n = 0, k = 0;
  MatrixAccess a, b;
  IntegerZeros zeros;
  int64_t k_elements = 0;    // with the elements that fill up dwords
  bool a_in_panels = false;  // dense: one panel per row tile, [k][rows of the tile]
  Body epilogue;
  std::vector<OperandRef> operands;
  std::string name;
  uint64_t total_flops = 0, total_bytes = 0;  // of the requested product, whatever the form
  // Row streams and dot products only: if this is above 0, the batch is one row of A each, which
  // multiplies the matrix of its group among so many (groups.h has the operands). The epilogue's
  // iteration space is (row, n).
  int64_t groups = 0;

  int64_t batch_count() const;
};

enum class PanelForm : uint8_t { kPacked, kPackedByTask, kInPlace };

// Each function returns the launch; operands refer to `gemm.operands`.
KernelLaunch EmitTiledGemm(KernelCache& cache, const BoundGemm& gemm, PanelForm form,
                           const GemmBlocks& blocks, PanelType packed_type);
KernelLaunch EmitRowStreamGemm(KernelCache& cache, const BoundGemm& gemm);
KernelLaunch EmitDotGemm(KernelCache& cache, const BoundGemm& gemm);

// The most rows of A that the streaming forms take.
inline constexpr int64_t kMaxStreamedRows = 4;
// Rows of B shorter than this are not streamed.
inline constexpr int64_t kShortestStream = 32;
// A walk over k by columns of A touches a line per step. An A with more steps than this is staged.
inline constexpr int64_t kLongestColumnWalk = 128;

}  // namespace hpu::graph_compiler
