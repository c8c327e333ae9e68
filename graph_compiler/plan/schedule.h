// Orders the kernels: producers run before consumers, and reads of memory before a write that
// shares it (a persistent output placed over an input).
#pragma once

#include <vector>

#include "base/status.h"
#include "graph_compiler/fusion/row_groups.h"

namespace hpu::graph_compiler {

absl::Status ScheduleKernels(const LoopGraph& graph, std::vector<FusedKernel>& kernels);

std::vector<ValueId> ReadsOf(const LoopGraph& graph, const FusedKernel& kernel);
std::vector<ValueId> WritesOf(const LoopGraph& graph, const FusedKernel& kernel);

}  // namespace hpu::graph_compiler
