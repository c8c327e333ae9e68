// Knows which nodes read and write which value, and keeps that current while nodes are fused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph_compiler/fusion/merge_order.h"
#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// Returns the name of a kernel that covers the nodes of both names, for profiles: node names joined
// by "+", each once; "..." ends a list that is too long.
std::string JoinNodeNames(const std::string& first, const std::string& second);

class FusionState {
 public:
  explicit FusionState(LoopGraph& graph);

  const LoopGraph& graph() const { return graph_; }
  Node& node(uint32_t i) { return graph_.nodes[i]; }
  size_t num_nodes() const { return graph_.nodes.size(); }
  bool alive(uint32_t i) const { return alive_[i]; }
  const std::vector<uint32_t>& readers(ValueId value) const { return readers_[value]; }
  const std::vector<uint32_t>& writers(ValueId value) const { return writers_[value]; }

  const std::vector<ValueId>& reads(uint32_t i) const { return reads_[i]; }
  const std::vector<ValueId>& writes(uint32_t i) const { return writes_[i]; }
  // Returns the other persistent values in the memory of this one.
  const std::vector<ValueId>& overlaps(ValueId value) const { return overlaps_[value]; }
  bool shares_memory() const { return shares_memory_; }

  // Visits the nodes that must run after node `i`: those that read what it writes; later ones that
  // write what it writes (a scatter after the copy under it); and those that overwrite the memory
  // that it reads. The visits may include `i` itself and may repeat.
  void ForEachSuccessor(uint32_t i, const MergeOrder::Visit& visit) const;

  // Replaces a node by its fused form, or takes it out.
  void Replace(uint32_t i, Node node);
  void Remove(uint32_t i);

  // Returns whether one node may do the work of both, which is so when no third node stands in
  // between. If so, `gone` takes the place of `kept` in the order; the caller replaces `kept` and
  // removes `gone`.
  bool Merge(uint32_t kept, uint32_t gone);
  // Returns whether everything that `from` reads still holds its old content where node `to` runs.
  bool MayReadLater(uint32_t from, uint32_t to);

  // Returns whether the value is computed for use inside one phase of this recipe only.
  bool IsTemporary(ValueId value) const {
    return graph_.values[value].home == Home::kWorkspace && !between_phases_[value];
  }

  // Takes out nodes that have no used result, then compacts the node list.
  void Finish();

 private:
  void Link(uint32_t i);
  void Unlink(uint32_t i);
  void RemoveDead();
  void FindBetweenPhases();
  MergeOrder& Order();

  LoopGraph& graph_;
  std::vector<bool> alive_;
  std::vector<std::vector<ValueId>> reads_;   // by node
  std::vector<std::vector<ValueId>> writes_;  // by node
  std::vector<std::vector<ValueId>> overlaps_;
  bool shares_memory_ = false;
  std::vector<bool> between_phases_;  // by value: made in one phase, read in another
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<std::vector<uint32_t>> writers_;
  std::optional<MergeOrder> order_;
};

}  // namespace hpu::graph_compiler
