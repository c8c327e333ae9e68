#include "graph_compiler/import/phases.h"

#include <algorithm>
#include <utility>

#include "graph_compiler/import/importer.h"

namespace hpu::graph_compiler {
namespace {

// Requires that the phase of `after` is >= the phase of `before` + gap.
struct Constraint {
  uint32_t before = 0;
  uint32_t after = 0;
  uint32_t gap = 0;
};

struct Range {
  uint32_t section = kNoSection;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool Overlaps(const Range& other) const {
    return section == other.section && section != kNoSection && begin < other.end &&
           other.begin < end;
  }
};

class PhasePlanner {
 public:
  explicit PhasePlanner(const GraphDesc& graph)
      : graph_(graph), edges_(graph.nodes.size()), writers_(graph.tensors.size()) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      for (const uint32_t tensor : graph.nodes[n].outputs) {
        if (tensor != kNoTensor) writers_[tensor].push_back(n);
      }
    }
  }

  absl::StatusOr<Phases> Run() {
    RETURN_IF_ERROR(FindRanges());
    AddDataAndControl();
    AddSharedMemory();
    Phases phases;
    ASSIGN_OR_RETURN(phases.of_node, Earliest());
    phases.count = *std::max_element(phases.of_node.begin(), phases.of_node.end()) + 1;
    MoveLate(phases);
    phases.overwritten = std::move(overwritten_);
    return phases;
  }

 private:
  void Add(uint32_t before, uint32_t after, uint32_t gap) {
    if (before == after && gap == 0) return;
    constraints_.push_back({before, after, gap});
  }

  absl::Status FindRanges() {
    ranges_.resize(graph_.tensors.size());
    overwritten_.assign(graph_.tensors.size(), false);
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const TensorDesc& tensor = graph_.tensors[i];
      if (tensor.placement != TensorPlacement::kPersistent) continue;
      ASSIGN_OR_RETURN(const MemoryType type, ToMemoryType(tensor.dtype));
      const auto bytes =
          static_cast<uint64_t>(NumElements(ToShape(tensor.sizes)) * MemoryTypeSize(type));
      ranges_[i] = {tensor.section, tensor.section_offset, tensor.section_offset + bytes};
    }
    return absl::OkStatus();
  }

  void AddDataAndControl() {
    const auto add = [&](uint32_t before, uint32_t after, uint32_t gap) {
      Add(before, after, gap);
      edges_[before].emplace_back(after, gap != 0);
    };
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      for (const uint32_t tensor : graph_.nodes[n].inputs) {
        if (tensor == kNoTensor) continue;
        for (const uint32_t writer : writers_[tensor]) {
          if (writer < n) add(writer, n, 0);
        }
      }
      for (const uint32_t blocking : graph_.nodes[n].blocked_by) add(blocking, n, 1);
    }
  }

  // Returns the nodes that can be reached by a path with a control edge.
  std::vector<bool> ControlledBy(uint32_t node) const {
    std::vector<bool> reached(2 * graph_.nodes.size(), false);  // 2 * node + "over a control edge"
    std::vector<uint32_t> pending = {2 * node};
    while (!pending.empty()) {
      const uint32_t state = pending.back();
      pending.pop_back();
      for (const auto& [next, control] : edges_[state / 2]) {
        const uint32_t next_state = 2 * next + (control ? 1 : state % 2);
        if (reached[next_state]) continue;
        reached[next_state] = true;
        pending.push_back(next_state);
      }
    }
    std::vector<bool> controlled(graph_.nodes.size());
    for (size_t n = 0; n < controlled.size(); ++n) controlled[n] = reached[2 * n + 1];
    return controlled;
  }

  void AddSharedMemory() {
    for (uint32_t written = 0; written < graph_.tensors.size(); ++written) {
      for (const uint32_t writer : writers_[written]) {
        std::vector<bool> controlled;
        for (uint32_t other = 0; other < graph_.tensors.size(); ++other) {
          if (other == written || !ranges_[written].Overlaps(ranges_[other])) continue;
          overwritten_[other] = true;
          if (controlled.empty()) controlled = ControlledBy(writer);
          AddReadersBefore(other, writer, controlled);
        }
      }
    }
  }

  void AddReadersBefore(uint32_t tensor, uint32_t writer, const std::vector<bool>& controlled) {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const std::vector<uint32_t>& inputs = graph_.nodes[n].inputs;
      if (controlled[n] || std::find(inputs.begin(), inputs.end(), tensor) == inputs.end())
        continue;
      Add(n, writer, 0);
    }
  }

  absl::StatusOr<std::vector<uint32_t>> Earliest() const {
    std::vector<uint32_t> phase(graph_.nodes.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (const Constraint& c : constraints_) {
        if (phase[c.after] >= phase[c.before] + c.gap) continue;
        phase[c.after] = phase[c.before] + c.gap;
        changed = true;
        if (phase[c.after] < graph_.nodes.size()) continue;
        const NodeDesc& node = graph_.nodes[c.after];
        return InvalidArgument("node '", node.name, "' (", node.guid,
                               ") cannot be ordered: control edges, data and shared memory "
                               "contradict each other in a cycle");
      }
    }
    return phase;
  }

  void MoveLate(Phases& phases) const {
    std::vector<bool> free(graph_.nodes.size(), false);
    for (const Constraint& c : constraints_) free[c.before] = true;
    for (size_t n = 0; n < free.size(); ++n) {
      if (free[n]) phases.of_node[n] = phases.count - 1;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const Constraint& c : constraints_) {
        const uint32_t latest = phases.of_node[c.after] - c.gap;
        if (phases.of_node[c.before] <= latest) continue;
        phases.of_node[c.before] = latest;
        changed = true;
      }
    }
  }

  const GraphDesc& graph_;
  std::vector<std::vector<std::pair<uint32_t, bool>>> edges_;  // data and control: next, is control
  std::vector<std::vector<uint32_t>> writers_;                 // by tensor
  std::vector<Range> ranges_;                                  // by tensor
  std::vector<bool> overwritten_;
  std::vector<Constraint> constraints_;
};

}  // namespace

absl::StatusOr<Phases> PlanPhases(const GraphDesc& graph) {
  const bool controlled =
      std::any_of(graph.nodes.begin(), graph.nodes.end(),
                  [](const NodeDesc& node) { return !node.blocked_by.empty(); });
  if (controlled) return PhasePlanner(graph).Run();
  Phases phases;
  phases.of_node.assign(graph.nodes.size(), 0);
  return phases;
}

}  // namespace hpu::graph_compiler
