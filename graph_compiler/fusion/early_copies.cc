#include "graph_compiler/fusion/early_copies.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph_compiler/ir/overlaps.h"

namespace hpu::graph_compiler {
namespace {

// Returns the temporary that the node copies unchanged, or null if the node does anything else.
const Value* CopiedTemporary(const LoopGraph& graph, const Node& node) {
  if (!node.IsMap() || node.keep_apart || node.overwrites) return nullptr;
  if (node.body.ops.size() != 1 || node.body.stores.size() != 1) return nullptr;
  const BodyOp& load = node.body.ops[0];
  const Access& store = node.body.stores[0].access;
  if (load.op != Opcode::kLoad || !load.access.operand.IsBuffer()) return nullptr;
  if (load.access.type != store.type || store.indirect_value != kNoValue) return nullptr;
  const Value& from = graph.values[load.access.operand.number];
  return from.home == Home::kWorkspace ? &from : nullptr;
}

class Mover {
 public:
  explicit Mover(LoopGraph& graph)
      : graph_(graph),
        overlaps_(FindOverlaps(graph)),
        readers_(graph.values.size()),
        writers_(graph.values.size()) {
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId value : graph.nodes[i].Reads()) readers_[value].push_back(i);
      for (const ValueId value : graph.nodes[i].Writes()) writers_[value].push_back(i);
    }
  }

  void Run() {
    std::map<uint32_t, std::vector<uint32_t>> arrivals;  // copies by the phase that they move to
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      const Value* from = CopiedTemporary(graph_, node);
      if (from == nullptr) continue;
      const uint32_t phase = LastWrite(static_cast<ValueId>(from - graph_.values.data()));
      if (phase >= node.phase || IsSeen(i, phase)) continue;
      node.phase = phase;
      arrivals[phase].push_back(i);
    }
    if (!arrivals.empty()) Reorder(arrivals);
  }

 private:
  uint32_t PhaseOf(uint32_t node) const { return graph_.nodes[node].phase; }

  uint32_t LastWrite(ValueId value) const {
    uint32_t phase = 0;
    for (const uint32_t writer : writers_[value]) phase = std::max(phase, PhaseOf(writer));
    return phase;
  }

  // Returns whether any node would notice if the copy happened in `phase`.
  bool IsSeen(uint32_t copy, uint32_t phase) const {
    const uint32_t now = PhaseOf(copy);
    const auto within = [&](uint32_t node, uint32_t first) {
      return node != copy && PhaseOf(node) >= first && PhaseOf(node) <= now;
    };
    const auto any_within = [&](const std::vector<uint32_t>& nodes, uint32_t first) {
      return std::any_of(nodes.begin(), nodes.end(),
                         [&](uint32_t node) { return within(node, first); });
    };
    const ValueId written = graph_.nodes[copy].body.stores[0].access.operand.number;
    if (graph_.values[written].content.has_value() || any_within(writers_[written], phase)) {
      return true;
    }
    return std::any_of(overlaps_[written].begin(), overlaps_[written].end(), [&](ValueId other) {
      return any_within(writers_[other], phase) || any_within(readers_[other], phase + 1);
    });
  }

  // Moves each copy to the end of its new phase.
  void Reorder(const std::map<uint32_t, std::vector<uint32_t>>& arrivals) {
    std::vector<bool> moved(graph_.nodes.size());
    for (const auto& [phase, copies] : arrivals) {
      for (const uint32_t copy : copies) moved[copy] = true;
    }
    std::vector<Node> nodes;
    nodes.reserve(graph_.nodes.size());
    auto next = arrivals.begin();
    const auto arrive_before = [&](uint32_t phase) {
      for (; next != arrivals.end() && next->first < phase; ++next) {
        for (const uint32_t copy : next->second) nodes.push_back(std::move(graph_.nodes[copy]));
      }
    };
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (moved[i]) continue;
      arrive_before(graph_.nodes[i].phase);
      nodes.push_back(std::move(graph_.nodes[i]));
    }
    arrive_before(UINT32_MAX);
    graph_.nodes = std::move(nodes);
  }

  LoopGraph& graph_;
  const std::vector<std::vector<ValueId>> overlaps_;
  std::vector<std::vector<uint32_t>> readers_, writers_;  // by value
};

}  // namespace

void AdvanceCopies(LoopGraph& graph) { Mover(graph).Run(); }

}  // namespace hpu::graph_compiler
