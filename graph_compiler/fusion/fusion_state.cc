#include "graph_compiler/fusion/fusion_state.h"

#include <algorithm>
#include <string_view>

#include "graph_compiler/ir/overlaps.h"

namespace hpu::graph_compiler {

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
      reads_(graph.nodes.size()),
      writes_(graph.nodes.size()),
      overlaps_(FindOverlaps(graph)),
      shares_memory_(std::any_of(overlaps_.begin(), overlaps_.end(),
                                 [](const auto& list) { return !list.empty(); })),
      between_phases_(graph.values.size(), false),
      readers_(graph.values.size()),
      writers_(graph.values.size()) {
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) Link(i);
  FindBetweenPhases();
  RemoveDead();
}

void FusionState::FindBetweenPhases() {
  for (ValueId value = 0; value < writers_.size(); ++value) {
    if (writers_[value].empty()) continue;
    const uint32_t phase = node(writers_[value][0]).phase;
    const auto elsewhere = [&](uint32_t other) { return node(other).phase != phase; };
    between_phases_[value] =
        std::any_of(writers_[value].begin(), writers_[value].end(), elsewhere) ||
        std::any_of(readers_[value].begin(), readers_[value].end(), elsewhere);
  }
}

void FusionState::Link(uint32_t i) {
  reads_[i] = graph_.nodes[i].Reads();
  writes_[i] = graph_.nodes[i].Writes();
  for (const ValueId value : reads_[i]) readers_[value].push_back(i);
  for (const ValueId value : writes_[i]) writers_[value].push_back(i);
}

void FusionState::Unlink(uint32_t i) {
  const auto drop = [&](std::vector<uint32_t>& list) {
    list.erase(std::remove(list.begin(), list.end(), i), list.end());
  };
  for (const ValueId value : reads_[i]) drop(readers_[value]);
  for (const ValueId value : writes_[i]) drop(writers_[value]);
  reads_[i].clear();
  writes_[i].clear();
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

void FusionState::ForEachSuccessor(uint32_t i, const MergeOrder::Visit& visit) const {
  const uint32_t phase = graph_.nodes[i].phase;
  for (const ValueId written : writes_[i]) {
    for (const uint32_t reader : readers_[written]) visit(reader);
    for (const uint32_t writer : writers_[written]) {
      if (writer > i) visit(writer);
    }
    for (const ValueId other : overlaps_[written]) {
      for (const uint32_t reader : readers_[other]) {
        if (graph_.nodes[reader].phase > phase) visit(reader);
      }
    }
  }
  for (const ValueId read : reads_[i]) {
    for (const ValueId other : overlaps_[read]) {
      for (const uint32_t writer : writers_[other]) {
        if (graph_.nodes[writer].phase >= phase) visit(writer);
      }
    }
  }
}

MergeOrder& FusionState::Order() {
  if (!order_.has_value()) {
    order_.emplace(static_cast<uint32_t>(num_nodes()),
                   [this](uint32_t i, const auto& visit) { ForEachSuccessor(i, visit); });
  }
  return *order_;
}

bool FusionState::Merge(uint32_t kept, uint32_t gone) {
  return Order().Merge(kept, gone,
                       [this](uint32_t i, const auto& visit) { ForEachSuccessor(i, visit); });
}

bool FusionState::MayReadLater(uint32_t from, uint32_t to) {
  if (!shares_memory_) return true;
  for (const ValueId read : reads_[from]) {
    for (const ValueId other : overlaps_[read]) {
      for (const uint32_t writer : writers_[other]) {
        if (writer == to || node(writer).phase < node(from).phase) continue;
        if (!Order().IsBefore(to, writer)) return false;
      }
    }
  }
  return true;
}

void FusionState::RemoveDead() {
  for (uint32_t i = static_cast<uint32_t>(graph_.nodes.size()); i-- > 0;) {
    if (!alive_[i]) continue;
    const std::vector<ValueId>& writes = writes_[i];
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

}  // namespace hpu::graph_compiler
