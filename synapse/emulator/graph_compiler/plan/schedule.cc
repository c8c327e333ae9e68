#include "synapse/emulator/graph_compiler/plan/schedule.h"

#include <algorithm>
#include <queue>

namespace hpu::emulator {
namespace {

void AddOnce(std::vector<ValueId>& list, ValueId value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

bool Overlap(const Value& x, const Value& y) {
  return x.home == Home::kPersistent && y.home == Home::kPersistent && x.section == y.section &&
         x.section != kNoSection && x.byte_offset < y.byte_offset + y.bytes &&
         y.byte_offset < x.byte_offset + x.bytes;
}

template <typename Function>
void ForEachLoad(const Body& body, const Function& function) {
  for (const BodyOp& op : body.ops) {
    if (op.op == Opcode::kLoad && op.access.operand != kIotaOperand) function(op.access);
  }
}

bool SameWalk(const Access& x, const Access& y) {
  return MemoryTypeSize(x.type) == MemoryTypeSize(y.type) && x.offset == y.offset &&
         x.strides == y.strides && x.indirect_value == kNoValue && y.indirect_value == kNoValue;
}

// One body after the other over the whole row; all its accesses of the two values must be the same
// walk, and none of the input may come after the store.
bool BodiesMayShare(const std::vector<const Body*>& bodies, uint32_t input, uint32_t output) {
  const Access* target = nullptr;
  for (const Body* body : bodies) {
    for (const Store& store : body->stores) {
      if (store.access.operand == output && target != nullptr) return false;
      if (store.access.operand == output) target = &store.access;
    }
  }
  if (target == nullptr) return false;
  bool legal = true;
  bool stored = false;
  for (const Body* body : bodies) {
    ForEachLoad(*body, [&](const Access& access) {
      if (access.operand == input) legal = legal && !stored && SameWalk(access, *target);
      if (access.operand == output) legal = false;
    });
    for (const Store& store : body->stores) stored = stored || &store.access == target;
  }
  return legal;
}

uint32_t OperandOf(const LoopKernel& kernel, ValueId value) {
  const auto found = std::find(kernel.operands.begin(), kernel.operands.end(), value);
  return static_cast<uint32_t>(found - kernel.operands.begin());
}

class Scheduler {
 public:
  Scheduler(const LoopGraph& graph, std::vector<FusedKernel> kernels)
      : graph_(graph), kernels_(std::move(kernels)) {
    for (const FusedKernel& kernel : kernels_) {
      reads_.push_back(ReadsOf(graph_, kernel));
      writes_.push_back(WritesOf(graph_, kernel));
    }
    after_.resize(kernels_.size());
    waiting_for_.assign(kernels_.size(), 0);
  }

  absl::StatusOr<Schedule> Run() {
    Schedule schedule;
    AddDataEdges();
    AddSharedMemoryEdges(&schedule);
    if (!schedule.must_buffer.empty()) return schedule;
    std::vector<uint32_t> order = Sort();
    if (order.size() < kernels_.size()) {
      for (const auto& [writer, tensor] : shared_writes_) {
        if (waiting_for_[writer] > 0) schedule.must_buffer.insert(tensor);
      }
      if (schedule.must_buffer.empty()) return Internal("kernels depend on each other in a cycle");
      return schedule;
    }
    for (const uint32_t kernel : order) schedule.kernels.push_back(std::move(kernels_[kernel]));
    return schedule;
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

  void AddSharedMemoryEdges(Schedule* schedule) {
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      for (const ValueId written : writes_[k]) {
        const Value& target = graph_.values[written];
        if (target.home != Home::kPersistent) continue;
        for (uint32_t reader = 0; reader < kernels_.size(); ++reader) {
          for (const ValueId read : reads_[reader]) {
            const Value& source = graph_.values[read];
            if (read == written || !Overlap(target, source)) continue;
            if (reader != k) {
              shared_writes_.emplace_back(k, target.tensor);
              AddEdge(reader, k);
            } else if (target.byte_offset != source.byte_offset ||
                       !MayShareMemory(graph_, kernels_[k], read, written)) {
              schedule->must_buffer.insert(target.tensor);
            }
          }
        }
      }
    }
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
  std::vector<FusedKernel> kernels_;
  std::vector<std::vector<ValueId>> reads_;
  std::vector<std::vector<ValueId>> writes_;
  std::vector<std::vector<uint32_t>> after_;
  std::vector<uint32_t> waiting_for_;
  std::vector<std::pair<uint32_t, uint32_t>> shared_writes_;  // kernel, tensor
};

}  // namespace

std::vector<ValueId> ReadsOf(const LoopGraph& graph, const FusedKernel& kernel) {
  if (!kernel.is_loop) return graph.nodes[kernel.nodes[0]].Reads();
  std::vector<ValueId> reads;
  for (const LoopPass& pass : kernel.loop.passes) {
    ForEachLoad(pass.body, [&](const Access& access) {
      if (access.operand < kernel.loop.operands.size()) {
        AddOnce(reads, kernel.loop.operands[access.operand]);
      }
    });
  }
  return reads;
}

std::vector<ValueId> WritesOf(const LoopGraph& graph, const FusedKernel& kernel) {
  if (!kernel.is_loop) return graph.nodes[kernel.nodes[0]].Writes();
  std::vector<ValueId> writes;
  for (const LoopPass& pass : kernel.loop.passes) {
    for (const Store& store : pass.body.stores) {
      if (store.access.operand < kernel.loop.operands.size()) {
        AddOnce(writes, kernel.loop.operands[store.access.operand]);
      }
    }
  }
  return writes;
}

bool MayShareMemory(const LoopGraph& graph, const FusedKernel& kernel, ValueId input,
                    ValueId output) {
  std::vector<const Body*> bodies;
  if (kernel.is_loop) {
    if (kernel.loop.serial) return false;
    for (const LoopPass& pass : kernel.loop.passes) bodies.push_back(&pass.body);
    return BodiesMayShare(bodies, OperandOf(kernel.loop, input), OperandOf(kernel.loop, output));
  }
  // A product may work over an operand of its epilogue, not over its factors.
  const Node& node = graph.nodes[kernel.nodes[0]];
  if (node.kind != NodeKind::kGemm && node.kind != NodeKind::kConv) return false;
  if (node.a.value == input || node.b.value == input) return false;
  return BodiesMayShare({&node.body}, input, output);
}

absl::StatusOr<Schedule> ScheduleKernels(const LoopGraph& graph, std::vector<FusedKernel> kernels) {
  return Scheduler(graph, std::move(kernels)).Run();
}

}  // namespace hpu::emulator
