// A stable sort (or its first k elements) along one dimension, with one row per task.
#pragma once

#include <string>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// The operands are 0 input, 1 values, 2 indices; values or indices may be absent. The sorted
// dimension is the last one of all views.
struct SortKernel {
  Shape rows;
  int64_t n = 0;
  int64_t k = 0;
  Access in, values, indices;  // over (rows..., sorted dimension)
  bool has_values = true;
  bool has_indices = true;
  bool descending = false;

  uint64_t Tasks() const;
  uint64_t ScratchBytes() const;
  std::string Structure() const;
};

SortKernel MakeSortKernel(const Node& node);

// Emits a sort in which NaN is the greatest and equal elements keep their order. A few of many are
// selected, short rows are merged, and long rows are sorted by the digits of their keys.
void EmitSortKernel(KernelModule& module, const SortKernel& kernel);

}  // namespace hpu::graph_compiler
