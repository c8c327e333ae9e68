// Order of kernels: producers before consumers, and reads of memory before a write that shares it
// (a persistent output placed over an input).
#pragma once

#include <set>
#include <vector>

#include "synapse/emulator/graph_compiler/fusion/row_groups.h"

namespace hpu::emulator {

struct Schedule {
  std::vector<FusedKernel> kernels;  // in order
  // Persistent tensors (GraphDesc indices) whose write cannot be placed or would destroy what the
  // kernel itself still reads: they need a temporary. Not empty: `kernels` is not valid.
  std::set<uint32_t> must_buffer;
};

absl::StatusOr<Schedule> ScheduleKernels(const LoopGraph& graph, std::vector<FusedKernel> kernels);

// Whether `kernel` may write `output` over `input`: every element is read by the iteration that
// overwrites it, before it does, and by no other. The two start at the same address.
bool MayShareMemory(const LoopGraph& graph, const FusedKernel& kernel, ValueId input,
                    ValueId output);

std::vector<ValueId> ReadsOf(const LoopGraph& graph, const FusedKernel& kernel);
std::vector<ValueId> WritesOf(const LoopGraph& graph, const FusedKernel& kernel);

}  // namespace hpu::emulator
