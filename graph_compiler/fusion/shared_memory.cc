#include "graph_compiler/fusion/shared_memory.h"

#include <algorithm>

#include "graph_compiler/fusion/build_loop_kernel.h"

namespace hpu::graph_compiler {
namespace {

template <typename Function>
void ForEachLoad(const Body& body, const Function& function) {
  for (const BodyOp& op : body.ops) {
    if (op.op == Opcode::kLoad) function(op.access);
  }
}

bool SameWalk(const Access& x, const Access& y) {
  return MemoryTypeSize(x.type) == MemoryTypeSize(y.type) && x.offset == y.offset &&
         x.strides == y.strides && x.indirect_value == kNoValue && y.indirect_value == kNoValue;
}

// The bodies run one after the other over the whole row. All their accesses of the two values must
// be the same walk, and no access of the input may come after the store.
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

bool LoopMayShare(const LoopKernel& loop, ValueId input, ValueId output) {
  if (loop.serial) return false;
  std::vector<const Body*> bodies;
  for (const LoopPass& pass : loop.passes) bodies.push_back(&pass.body);
  return BodiesMayShare(bodies, OperandOf(loop, input), OperandOf(loop, output));
}

// A product may write over an operand of its epilogue, but not over its factors.
bool ProductMayShare(const Node& node, ValueId input, ValueId output) {
  if (!node.IsProduct()) return false;
  for (const ConstPort& port : node.Ports()) {
    if (port.view->value == input) return false;
  }
  return BodiesMayShare({&node.body}, input, output);
}

bool SameStart(const LoopGraph& graph, ValueId x, ValueId y) {
  return graph.values[x].byte_offset == graph.values[y].byte_offset;
}

// Calls `legal(input, output)` for each pair that shares memory; returns false if one call does.
template <typename Function>
bool AllPairs(const FusionState& state, const std::vector<ValueId>& reads,
              const std::vector<ValueId>& writes, const Function& legal) {
  return std::all_of(writes.begin(), writes.end(), [&](ValueId output) {
    const std::vector<ValueId>& others = state.overlaps(output);
    return std::all_of(others.begin(), others.end(), [&](ValueId input) {
      return std::find(reads.begin(), reads.end(), input) == reads.end() || legal(input, output);
    });
  });
}

}  // namespace

bool MayShareMemory(const LoopGraph& graph, const FusedKernel& kernel, ValueId input,
                    ValueId output) {
  if (!SameStart(graph, input, output)) return false;
  if (kernel.is_loop) return LoopMayShare(kernel.loop, input, output);
  return ProductMayShare(graph.nodes[kernel.nodes[0]], input, output);
}

bool SharesRightly(const FusionState& state, const Node& node) {
  if (!state.shares_memory()) return true;
  if (node.Is<Loop>()) return SharesRightly(state, SingletonGroup(node));
  return AllPairs(state, node.Reads(), node.Writes(), [&](ValueId input, ValueId output) {
    return SameStart(state.graph(), input, output) && ProductMayShare(node, input, output);
  });
}

bool SharesRightly(const FusionState& state, const RowGroup& group) {
  if (!state.shares_memory()) return true;
  std::vector<ValueId> reads;
  std::vector<ValueId> writes;
  for (const RowGroup::Member& member : group.members) {
    for (const ValueId value : member.node.Reads()) reads.push_back(value);
    for (const ValueId value : member.node.Writes()) writes.push_back(value);
  }
  std::optional<LoopKernel> loop;
  return AllPairs(state, reads, writes, [&](ValueId input, ValueId output) {
    // If all results are stored, no load is left out as unused, whichever nodes read the results in
    // the end.
    if (!loop.has_value()) loop = BuildLoopKernel(group, [](ValueId) { return true; });
    return SameStart(state.graph(), input, output) && LoopMayShare(*loop, input, output);
  });
}

}  // namespace hpu::graph_compiler
