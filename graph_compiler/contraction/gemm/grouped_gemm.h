// Products whose rows or terms belong to groups (GroupedGemmSpec): the layers of a mixture of
// experts. The forms are:
//
//   streams   few rows: each row streams the matrix of its group, in place (gemm.h)
//   tiles     one task is the range of a group times some panels of columns. Panels are packed once
//             if B is stable, else by the task that uses them; for ranges of k, and for pairs of
//             bf16, a launch stages them. Some matrices are read in place
#pragma once

#include "graph_compiler/contraction/gemm/gemm.h"
#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

absl::StatusOr<EmittedKernels> EmitGroupedGemmKernels(KernelCache& cache,
                                                      const GroupedGemmSpec& spec);

// A product of groups whose operands lie where the tiles can read them. A is f32; its rows or its
// columns follow each other without a gap. Or A is pairs of bf16, where the panels are: then k and
// the strides of A count dwords (dwords.h). Operands are those of groups.h, then the epilogue's.
struct BoundGroupedGemm {
  bool inner = false;
  int64_t groups = 0, m = 0, n = 0, k = 0;
  MatrixAccess a, b;                    // B is the first matrix if each group has an operand
  bool separate = false;                // it has
  PanelForm form = PanelForm::kPacked;  // kInPlace: B is f32, and its rows follow each other
  PanelType panel_type = PanelType::kF32;
  int vectors = 0;    // per panel
  int amx_depth = 0;  // dwords of k that AMX tiles multiply at once (amx_tiles.h); 0: vectors
  Body epilogue;
  std::vector<OperandRef> operands;
  std::string name;
};
KernelLaunch EmitGroupedTiles(KernelCache& cache, const BoundGroupedGemm& gemm);

}  // namespace hpu::graph_compiler
