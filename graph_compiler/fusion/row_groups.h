// Loop nests over the same rows become one kernel:
//
//   m = max(x, rows); e = exp(x - m); s = sum(e, rows); y = e / s
//   =>  for each row:  pass 0  m = max(x)
//                      pass 1  e = exp(x - m) -> scratch, s = sum(e)
//                      pass 2  y = e * (1 / s)
//
// A node joins the group of one of its producers when it walks the same iteration space (the result
// of a reduction is read once per row) and no other path leads from the group to the node. If there
// is no such producer, it joins a group that reads one of its inputs in the same walk (two
// reductions of one input).
#pragma once

#include <vector>

#include "graph_compiler/codegen/loop_kernel.h"
#include "graph_compiler/fusion/fusion_state.h"

namespace hpu::graph_compiler {

// A future kernel: its members share `domain`, whose first `num_rows` dimensions are rows (all
// dimensions are rows while nothing is reduced).
struct RowGroup {
  struct Member {
    Node node;             // over the group's domain; a row-level node has stride 0 on columns
    bool reduces = false;  // folds the columns
    bool row_level = false;
  };
  Shape domain;
  size_t num_rows = 0;
  std::vector<Member> members;
};

// Returns a group that holds the node alone.
RowGroup SingletonGroup(const Node& node);

// One entry per kernel, not yet ordered; `nodes` are the graph's nodes that the kernel covers.
struct FusedKernel {
  std::vector<uint32_t> nodes;
  bool is_loop = false;  // `group` is set; else the single node is a product, a sort, ...
  RowGroup group;
  LoopKernel loop;  // filled by BuildLoopKernels
};

// Returns one kernel per node of the graph.
std::vector<FusedKernel> SingleKernels(const LoopGraph& graph);

// Joins kernels of single nodes.
void GroupRows(FusionState& state, std::vector<FusedKernel>& kernels);

}  // namespace hpu::graph_compiler
