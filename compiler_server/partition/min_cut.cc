#include "compiler_server/partition/min_cut.h"

#include <algorithm>

namespace hpu::compiler {

void MinCut::AddEdge(uint32_t from, uint32_t to, uint64_t capacity) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = static_cast<uint32_t>(edges_.size() - 1);
  edges_.push_back({from, first_[to], 0});
  first_[to] = static_cast<uint32_t>(edges_.size() - 1);
}

// Computes distances from the source over edges with capacity left.
bool MinCut::FindLevels() {
  level_.assign(first_.size(), kNone);
  std::vector<uint32_t> queue = {kSource};
  level_[kSource] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (uint32_t e = first_[queue[i]]; e != kNone; e = edges_[e].next) {
      if (edges_[e].capacity == 0 || level_[edges_[e].to] != kNone) continue;
      level_[edges_[e].to] = level_[queue[i]] + 1;
      queue.push_back(edges_[e].to);
    }
  }
  return level_[kSink] != kNone;
}

// Finds one path from source to sink by rising levels and returns the flow over it, or 0 if there
// is none. It does not recurse, because chains are as long as models are deep.
uint64_t MinCut::Augment() {
  std::vector<uint32_t> path;  // edges
  uint32_t vertex = kSource;
  while (vertex != kSink) {
    uint32_t& e = current_[vertex];
    while (e != kNone && (edges_[e].capacity == 0 || level_[edges_[e].to] != level_[vertex] + 1)) {
      e = edges_[e].next;
    }
    if (e != kNone) {
      path.push_back(e);
      vertex = edges_[e].to;
      continue;
    }
    if (path.empty()) return 0;
    level_[vertex] = kNone;  // a dead end
    vertex = edges_[path.back() ^ 1].to;
    path.pop_back();
  }
  uint64_t flow = kUnlimited;
  for (const uint32_t e : path) flow = std::min(flow, edges_[e].capacity);
  for (const uint32_t e : path) {
    edges_[e].capacity -= flow;
    edges_[e ^ 1].capacity += flow;
  }
  return flow;
}

std::vector<bool> MinCut::Solve() {
  while (value_ < kUnlimited && FindLevels()) {
    current_ = first_;
    while (const uint64_t flow = Augment()) {
      value_ += flow;
      if (value_ >= kUnlimited) break;
    }
  }
  FindLevels();
  std::vector<bool> on_source_side(first_.size());
  for (size_t i = 0; i < first_.size(); ++i) on_source_side[i] = level_[i] != kNone;
  return on_source_side;
}

}  // namespace hpu::compiler
