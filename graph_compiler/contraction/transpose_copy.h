// Copies that exchange two dimensions, by blocks transposed in registers: a loop that follows one
// side touches a cache line per element of the other.
#pragma once

#include <optional>
#include <vector>

#include "graph_compiler/codegen/loop_kernel.h"

namespace hpu::graph_compiler {

// out[b, row, col] = in[b, row, col] of 4-byte elements: columns are contiguous in `out`, rows in
// `in`. Strides and offsets in elements.
struct TransposeCopy {
  std::vector<int64_t> batch, source_batch_strides, target_batch_strides;
  int64_t rows = 0, cols = 0;
  int64_t source_col_stride = 0, target_row_stride = 0;
  int64_t source_offset = 0, target_offset = 0;
  uint32_t source = 0, target = 0;  // operands of the kernel

  uint64_t tasks() const;
};

// The kernel as such a copy; nullopt if it is another one or too small to gain.
std::optional<TransposeCopy> AsTransposeCopy(const LoopKernel& kernel);
void EmitTransposeCopy(KernelModule& module, const TransposeCopy& copy);

}  // namespace hpu::graph_compiler
