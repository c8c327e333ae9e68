// Who reads and writes which value, kept current while nodes are fused.
#pragma once

#include <string>
#include <vector>

#include "synapse/emulator/graph_compiler/loop_graph.h"

namespace hpu::emulator {

// Name of a kernel that covers the nodes of both names, for profiles: node names joined by "+",
// each once; "..." ends a list that is too long.
std::string JoinNodeNames(const std::string& first, const std::string& second);

class FusionState {
 public:
  explicit FusionState(LoopGraph& graph);

  LoopGraph& graph() { return graph_; }
  Node& node(uint32_t i) { return graph_.nodes[i]; }
  size_t num_nodes() const { return graph_.nodes.size(); }
  bool alive(uint32_t i) const { return alive_[i]; }
  const std::vector<uint32_t>& readers(ValueId value) const { return readers_[value]; }
  const std::vector<uint32_t>& writers(ValueId value) const { return writers_[value]; }

  // Nodes that must have run before node `i`: those that write what it reads, and the earlier ones
  // that write what it writes (a copy before the scatter into it). May hold `i` itself and repeat.
  std::vector<uint32_t> Sources(uint32_t i) const;

  // Exchanges a node for its fused form, or takes it out.
  void Replace(uint32_t i, Node node);
  void Remove(uint32_t i);

  // Whether `node` needs, directly or not, something that `source` writes.
  bool DependsOn(uint32_t node, uint32_t source);

  // Value is computed for use inside this recipe only.
  bool IsTemporary(ValueId value) const { return graph_.values[value].home == Home::kWorkspace; }

  // Takes out nodes none of whose results is used, then compacts the node list.
  void Finish();

 private:
  void Link(uint32_t i);
  void Unlink(uint32_t i);
  void RemoveDead();

  LoopGraph& graph_;
  std::vector<bool> alive_;
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<std::vector<uint32_t>> writers_;
  std::vector<uint32_t> visited_;
  uint32_t epoch_ = 0;
};

}  // namespace hpu::emulator
