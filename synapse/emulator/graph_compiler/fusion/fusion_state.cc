#include "synapse/emulator/graph_compiler/fusion/fusion_state.h"

#include <algorithm>
#include <string_view>

namespace hpu::emulator {

std::string JoinNodeNames(const std::string& first, const std::string& second) {
  constexpr size_t kLongest = 400;
  constexpr std::string_view kMore = "...";
  std::string joined = first;
  for (size_t begin = 0; begin < second.size() && !joined.ends_with(kMore);) {
    const size_t end = std::min(second.find('+', begin), second.size());
    const std::string name = second.substr(begin, end - begin);
    begin = end + 1;
    if (('+' + joined + '+').find('+' + name + '+') != std::string::npos) continue;
    if (!joined.empty()) joined += '+';
    joined += joined.size() + name.size() <= kLongest ? std::string_view(name) : kMore;
  }
  return joined;
}

FusionState::FusionState(LoopGraph& graph)
    : graph_(graph),
      alive_(graph.nodes.size(), true),
      readers_(graph.values.size()),
      writers_(graph.values.size()),
      visited_(graph.nodes.size(), 0) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) Link(i);
  RemoveDead();
}

void FusionState::Link(uint32_t i) {
  for (const ValueId value : graph_.nodes[i].Reads()) readers_[value].push_back(i);
  for (const ValueId value : graph_.nodes[i].Writes()) writers_[value].push_back(i);
}

void FusionState::Unlink(uint32_t i) {
  const auto drop = [&](std::vector<uint32_t>& list) {
    list.erase(std::remove(list.begin(), list.end(), i), list.end());
  };
  for (const ValueId value : graph_.nodes[i].Reads()) drop(readers_[value]);
  for (const ValueId value : graph_.nodes[i].Writes()) drop(writers_[value]);
}

void FusionState::Replace(uint32_t i, Node node) {
  Unlink(i);
  graph_.nodes[i] = std::move(node);
  Link(i);
}

void FusionState::Remove(uint32_t i) {
  Unlink(i);
  alive_[i] = false;
}

std::vector<uint32_t> FusionState::Sources(uint32_t i) const {
  std::vector<uint32_t> sources;
  for (const ValueId value : graph_.nodes[i].Reads()) {
    sources.insert(sources.end(), writers_[value].begin(), writers_[value].end());
  }
  for (const ValueId value : graph_.nodes[i].Writes()) {
    for (const uint32_t writer : writers_[value]) {
      if (writer < i) sources.push_back(writer);
    }
  }
  return sources;
}

bool FusionState::DependsOn(uint32_t node, uint32_t source) {
  ++epoch_;
  std::vector<uint32_t> pending = {node};
  while (!pending.empty()) {
    const uint32_t current = pending.back();
    pending.pop_back();
    for (const uint32_t writer : Sources(current)) {
      if (writer == source) return true;
      if (writer == current || visited_[writer] == epoch_) continue;
      visited_[writer] = epoch_;
      pending.push_back(writer);
    }
  }
  return false;
}

void FusionState::RemoveDead() {
  for (uint32_t i = static_cast<uint32_t>(graph_.nodes.size()); i-- > 0;) {
    if (!alive_[i]) continue;
    const std::vector<ValueId> writes = graph_.nodes[i].Writes();
    const bool used = std::any_of(writes.begin(), writes.end(), [&](ValueId value) {
      if (!IsTemporary(value)) return true;
      return std::any_of(readers_[value].begin(), readers_[value].end(),
                         [&](uint32_t reader) { return reader != i; });
    });
    if (!used) Remove(i);
  }
}

void FusionState::Finish() {
  RemoveDead();
  std::vector<Node> kept;
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    if (alive_[i]) kept.push_back(std::move(graph_.nodes[i]));
  }
  graph_.nodes = std::move(kept);
}

}  // namespace hpu::emulator
