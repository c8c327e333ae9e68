// Computes the offsets of temporaries in the workspace. Two values share memory when no kernel
// needs both, or when one kernel turns one into the other element for element.
#pragma once

#include <vector>

#include "graph_compiler/plan/schedule.h"

namespace hpu::graph_compiler {

struct MemoryPlan {
  std::vector<uint64_t> value_offset;  // by value; meaningful for stored temporaries
  std::vector<uint64_t> extra_offset;  // by kernel: its private workspace
  uint64_t bytes = 0;                  // multiple of 128
};

// extra_bytes[k] is the workspace that kernel k needs while it runs.
MemoryPlan PlanMemory(const LoopGraph& graph, const std::vector<FusedKernel>& kernels,
                      const std::vector<std::vector<ValueId>>& stored,
                      const std::vector<std::vector<ValueId>>& loaded,
                      const std::vector<uint64_t>& extra_bytes);

}  // namespace hpu::graph_compiler
