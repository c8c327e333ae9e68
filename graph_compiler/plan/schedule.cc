#include "graph_compiler/plan/schedule.h"

#include <algorithm>
#include <queue>

#include "graph_compiler/fusion/shared_memory.h"
#include "graph_compiler/ir/overlaps.h"

namespace hpu::graph_compiler {
namespace {

void AddOnce(std::vector<ValueId>& list, ValueId value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

class Scheduler {
 public:
  Scheduler(const LoopGraph& graph, std::vector<FusedKernel>& kernels)
      : graph_(graph), kernels_(kernels) {
    for (const FusedKernel& kernel : kernels_) {
      reads_.push_back(ReadsOf(graph_, kernel));
      writes_.push_back(WritesOf(graph_, kernel));
    }
    after_.resize(kernels_.size());
    waiting_for_.assign(kernels_.size(), 0);
  }

  absl::Status Run() {
    AddDataEdges();
    RETURN_IF_ERROR(AddSharedMemoryEdges());
    const std::vector<uint32_t> order = Sort();
    if (order.size() < kernels_.size()) return Internal("kernels depend on each other in a circle");
    std::vector<FusedKernel> sorted;
    for (const uint32_t kernel : order) sorted.push_back(std::move(kernels_[kernel]));
    kernels_ = std::move(sorted);
    return absl::OkStatus();
  }

 private:
  void AddEdge(uint32_t before, uint32_t after) {
    if (before == after) return;
    after_[before].push_back(after);
    ++waiting_for_[after];
  }

  uint32_t FirstNode(uint32_t kernel) const { return kernels_[kernel].nodes.front(); }

  void AddDataEdges() {
    std::vector<std::vector<uint32_t>> writers(graph_.values.size());
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      for (const ValueId value : writes_[k]) writers[value].push_back(k);
    }
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      for (const ValueId value : reads_[k]) {
        for (const uint32_t writer : writers[value]) AddEdge(writer, k);
      }
    }
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      const Node& node = graph_.nodes[FirstNode(k)];
      if (!node.overwrites) continue;
      for (const ValueId value : writes_[k]) {
        for (const uint32_t writer : writers[value]) {
          if (FirstNode(writer) < FirstNode(k)) AddEdge(writer, k);
        }
      }
    }
  }

  uint32_t PhaseOf(uint32_t kernel) const { return graph_.nodes[FirstNode(kernel)].phase; }

  // Memory is read before it is overwritten, unless the reads belong to a later phase.
  absl::Status AddSharedMemoryEdges() {
    const std::vector<std::vector<ValueId>> overlaps = FindOverlaps(graph_);
    std::vector<std::vector<uint32_t>> readers(graph_.values.size());
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      for (const ValueId value : reads_[k]) readers[value].push_back(k);
    }
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      for (const ValueId written : writes_[k]) {
        for (const ValueId other : overlaps[written]) {
          for (const uint32_t reader : readers[other]) {
            if (reader == k && !MayShareMemory(graph_, kernels_[k], other, written)) {
              return Internal("kernel '", graph_.nodes[FirstNode(k)].name, "' overwrites '",
                              graph_.values[other].name, "' while it reads it");
            }
            if (PhaseOf(reader) <= PhaseOf(k)) {
              AddEdge(reader, k);
            } else {
              AddEdge(k, reader);
            }
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // Kernels that are ready run in the order of their nodes in the graph.
  std::vector<uint32_t> Sort() {
    std::priority_queue<std::pair<uint32_t, uint32_t>, std::vector<std::pair<uint32_t, uint32_t>>,
                        std::greater<>>
        ready;
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      if (waiting_for_[k] == 0) ready.emplace(FirstNode(k), k);
    }
    std::vector<uint32_t> order;
    while (!ready.empty()) {
      const uint32_t kernel = ready.top().second;
      ready.pop();
      order.push_back(kernel);
      for (const uint32_t next : after_[kernel]) {
        if (--waiting_for_[next] == 0) ready.emplace(FirstNode(next), next);
      }
    }
    return order;
  }

  const LoopGraph& graph_;
  std::vector<FusedKernel>& kernels_;
  std::vector<std::vector<ValueId>> reads_;
  std::vector<std::vector<ValueId>> writes_;
  std::vector<std::vector<uint32_t>> after_;
  std::vector<uint32_t> waiting_for_;
};

}  // namespace

std::vector<ValueId> ReadsOf(const LoopGraph& graph, const FusedKernel& kernel) {
  if (!kernel.is_loop) return graph.nodes[kernel.nodes[0]].Reads();
  std::vector<ValueId> reads;
  for (const LoopPass& pass : kernel.loop.passes) {
    for (const BodyOp& op : pass.body.ops) {
      const Operand& operand = op.access.operand;
      if (op.op == Opcode::kLoad && operand.IsBuffer()) {
        AddOnce(reads, kernel.loop.operands[operand.number]);
      }
    }
  }
  return reads;
}

std::vector<ValueId> WritesOf(const LoopGraph& graph, const FusedKernel& kernel) {
  if (!kernel.is_loop) return graph.nodes[kernel.nodes[0]].Writes();
  std::vector<ValueId> writes;
  for (const LoopPass& pass : kernel.loop.passes) {
    for (const Store& store : pass.body.stores) {
      const Operand& operand = store.access.operand;
      if (operand.IsBuffer()) AddOnce(writes, kernel.loop.operands[operand.number]);
    }
  }
  return writes;
}

absl::Status ScheduleKernels(const LoopGraph& graph, std::vector<FusedKernel>& kernels) {
  return Scheduler(graph, kernels).Run();
}

}  // namespace hpu::graph_compiler
