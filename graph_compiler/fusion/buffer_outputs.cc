#include "graph_compiler/fusion/buffer_outputs.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph_compiler/fusion/fusion_state.h"
#include "graph_compiler/fusion/shared_memory.h"

namespace hpu::graph_compiler {
namespace {

// A value that a phase writes.
struct Output {
  uint32_t phase = 0;
  ValueId value = 0;
  auto operator<=>(const Output&) const = default;
};

std::set<Output> OverwrittenByTheirReader(FusionState& state) {
  std::set<Output> outputs;
  for (uint32_t i = 0; i < state.num_nodes(); ++i) {
    if (SharesRightly(state, state.node(i))) continue;
    for (const ValueId written : state.writes(i)) {
      const std::vector<ValueId>& others = state.overlaps(written);
      if (std::any_of(others.begin(), others.end(), [&](ValueId other) {
            const std::vector<uint32_t>& readers = state.readers(other);
            return std::find(readers.begin(), readers.end(), i) != readers.end();
          })) {
        outputs.insert({state.node(i).phase, written});
      }
    }
  }
  return outputs;
}

// Numbers the circles of the graph, so that each node knows which one it is in (Tarjan's strongly
// connected components).
class Circles {
 public:
  explicit Circles(const FusionState& state)
      : state_(state), found_(state.num_nodes(), 0), lowest_(found_), circle_(found_) {
    for (uint32_t i = 0; i < found_.size(); ++i) {
      if (found_[i] == 0) Walk(i);
    }
  }
  bool Same(uint32_t x, uint32_t y) const { return circle_[x] == circle_[y]; }

 private:
  struct Step {
    uint32_t node;
    std::vector<uint32_t> next;
  };

  Step Enter(uint32_t node) {
    found_[node] = lowest_[node] = ++count_;
    open_.push_back(node);
    Step step{node, {}};
    state_.ForEachSuccessor(node, [&](uint32_t next) { step.next.push_back(next); });
    return step;
  }

  void Walk(uint32_t start) {
    std::vector<Step> way;
    way.push_back(Enter(start));
    while (!way.empty()) {
      const uint32_t node = way.back().node;
      if (!way.back().next.empty()) {
        const uint32_t next = way.back().next.back();
        way.back().next.pop_back();
        if (found_[next] == 0) {
          way.push_back(Enter(next));
        } else if (circle_[next] == 0) {
          lowest_[node] = std::min(lowest_[node], found_[next]);
        }
        continue;
      }
      way.pop_back();
      if (!way.empty()) {
        lowest_[way.back().node] = std::min(lowest_[way.back().node], lowest_[node]);
      }
      if (lowest_[node] == found_[node]) Close(node);
    }
  }

  void Close(uint32_t first) {
    for (uint32_t node = first + 1; node != first;) {
      node = open_.back();
      open_.pop_back();
      circle_[node] = found_[first];
    }
  }

  const FusionState& state_;
  std::vector<uint32_t> found_;   // by node, in order from 1; 0 = not found yet
  std::vector<uint32_t> lowest_;  // the earliest found node that this one leads back to
  std::vector<uint32_t> circle_;  // 0 = still open
  std::vector<uint32_t> open_;
  uint32_t count_ = 0;
};

std::set<Output> OverwrittenInCircles(FusionState& state) {
  std::set<Output> outputs;
  if (!state.shares_memory()) return outputs;
  const Circles circles(state);
  for (uint32_t i = 0; i < state.num_nodes(); ++i) {
    for (const ValueId written : state.writes(i)) {
      for (const ValueId other : state.overlaps(written)) {
        for (const uint32_t reader : state.readers(other)) {
          const bool before = state.node(reader).phase <= state.node(i).phase;
          if (reader != i && before && circles.Same(reader, i)) {
            outputs.insert({state.node(i).phase, written});
          }
        }
      }
    }
  }
  return outputs;
}

Access WholeValue(const LoopGraph& graph, ValueId value) {
  const Value& v = graph.values[value];
  return {value, v.type, v.strides, 0};
}

Node Copy(const LoopGraph& graph, ValueId from, ValueId to, uint32_t phase) {
  Node node;
  node.phase = phase;
  node.domain = graph.values[to].shape;
  const Access access = WholeValue(graph, from);
  node.body.ops.push_back({Opcode::kLoad, ComputeType(access.type), {}, 0, 0, access});
  node.body.stores.push_back({0, WholeValue(graph, to)});
  return node;
}

void Rename(Node& node, ValueId from, ValueId to) {
  const auto rename = [&](Operand& operand) { operand = operand == from ? to : operand; };
  for (BodyOp& op : node.body.ops) {
    if (op.op == Opcode::kLoad) rename(op.access.operand);
  }
  for (Store& store : node.body.stores) rename(store.access.operand);
  for (const Port& port : node.Ports()) {
    if (port.view->value == from) port.view->value = to;
  }
}

bool Touches(const Node& node, ValueId value) {
  for (const std::vector<ValueId>& list : {node.Reads(), node.Writes()}) {
    if (std::find(list.begin(), list.end(), value) != list.end()) return true;
  }
  return false;
}

// Puts a temporary in the place of each output while the output's phase runs.
void Redirect(LoopGraph& graph, const std::set<Output>& outputs) {
  if (outputs.empty()) return;
  std::map<Output, ValueId> temporary_of;
  std::map<uint32_t, std::vector<Node>> copies;  // by phase; they run at its end
  for (const Output& output : outputs) {
    const Value& value = graph.values[output.value];
    Value temporary{value.name, value.type, value.shape, value.strides};
    temporary.bytes = value.bytes;
    graph.values.push_back(std::move(temporary));
    const auto number = static_cast<ValueId>(graph.values.size() - 1);
    temporary_of[output] = number;
    Node copy = Copy(graph, number, output.value, output.phase);
    copy.name = "copy_out";
    copy.keep_apart = true;
    copies[output.phase].push_back(std::move(copy));
  }
  std::set<Output> begun;
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const uint32_t phase = node.phase;
    for (const auto& [output, number] : temporary_of) {
      if (output.phase != phase || !Touches(node, output.value)) continue;
      const std::optional<ValueId>& content = graph.values[output.value].content;
      if (content.has_value() && begun.insert(output).second) {
        nodes.push_back(Copy(graph, *content, number, phase));
        nodes.back().name = node.name;
      }
      Rename(node, output.value, number);
    }
    nodes.push_back(std::move(node));
    if (i + 1 < graph.nodes.size() && graph.nodes[i + 1].phase == phase) continue;
    for (Node& copy : copies[phase]) nodes.push_back(std::move(copy));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace

void BufferOutputs(LoopGraph& graph) {
  FusionState(graph).Finish();
  FusionState whole(graph);
  Redirect(graph, OverwrittenByTheirReader(whole));
  FusionState rest(graph);
  Redirect(graph, OverwrittenInCircles(rest));
}

}  // namespace hpu::graph_compiler
