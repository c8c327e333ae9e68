// Copies that exchange two dimensions (ir/transposition.h), by blocks that are transposed in
// registers.
#pragma once

#include <optional>
#include <vector>

#include "graph_compiler/codegen/loop_kernel.h"

namespace hpu::graph_compiler {

// Copies out[b, row, col] = in[b, row, col]: columns are contiguous in `out`, rows in `in`. Strides
// and offsets are in elements.
struct TransposeCopy {
  std::vector<int64_t> batch, source_batch_strides, target_batch_strides;
  int64_t rows = 0, cols = 0;
  int64_t source_col_stride = 0, target_row_stride = 0;
  int64_t source_offset = 0, target_offset = 0;
  int element_bytes = 0;            // 2 or 4
  uint32_t source = 0, target = 0;  // operands of the kernel

  uint64_t tasks() const;
};

// Returns the kernel as such a copy, or nullopt if it is another kind of kernel.
std::optional<TransposeCopy> AsTransposeCopy(const LoopKernel& kernel);
void EmitTransposeCopy(KernelModule& module, const TransposeCopy& copy);

}  // namespace hpu::graph_compiler
