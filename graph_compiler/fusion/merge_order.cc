#include "graph_compiler/fusion/merge_order.h"

#include <algorithm>
#include <queue>

namespace hpu::graph_compiler {
namespace {

constexpr uint32_t kNobody = 0xFFFFFFFF;

}  // namespace

MergeOrder::MergeOrder(uint32_t count, const Successors& successors)
    : place_(count, kNobody), visited_(count, 0) {
  std::vector<uint32_t> waiting_for(count, 0);
  for (uint32_t i = 0; i < count; ++i) {
    successors(i, [&](uint32_t next) { waiting_for[next] += next != i ? 1 : 0; });
  }
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t i = 0; i < count; ++i) {
    if (waiting_for[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const uint32_t item = ready.top();
    ready.pop();
    place_[item] = static_cast<uint32_t>(item_.size());
    item_.push_back(item);
    successors(item, [&](uint32_t next) {
      if (next != item && --waiting_for[next] == 0) ready.push(next);
    });
  }
  // The order of items in a circle is arbitrary; the scheduler reports the circle.
  for (uint32_t i = 0; i < count; ++i) {
    if (place_[i] != kNobody) continue;
    place_[i] = static_cast<uint32_t>(item_.size());
    item_.push_back(i);
  }
}

bool MergeOrder::Merge(uint32_t kept, uint32_t gone, const Successors& successors) {
  const bool kept_first = IsBefore(kept, gone);
  const uint32_t first = kept_first ? kept : gone;
  const uint32_t last = kept_first ? gone : kept;
  const uint32_t begin = place_[first];
  const uint32_t end = place_[last];
  ++round_;
  bool between = false;
  std::vector<uint32_t> pending;
  const auto visit = [&](uint32_t next) {
    if (place_[next] >= end || visited_[next] == round_ || next == first) return;
    visited_[next] = round_;
    pending.push_back(next);
  };
  successors(first, visit);
  while (!pending.empty() && !between) {
    const uint32_t item = pending.back();
    pending.pop_back();
    successors(item, [&](uint32_t next) {
      between = between || next == last;
      visit(next);
    });
  }
  if (between) return false;
  // Items that depend on the first come after both; everything else in the stretch comes before.
  std::vector<uint32_t> before;
  std::vector<uint32_t> after;
  for (uint32_t place = begin; place <= end; ++place) {
    const uint32_t item = item_[place];
    if (item == kNobody || item == first || item == last) continue;
    (visited_[item] == round_ ? after : before).push_back(item);
  }
  before.push_back(kept);
  before.insert(before.end(), after.begin(), after.end());
  std::fill(item_.begin() + begin, item_.begin() + end + 1, kNobody);
  for (size_t i = 0; i < before.size(); ++i) {
    place_[before[i]] = begin + static_cast<uint32_t>(i);
    item_[begin + i] = before[i];
  }
  return true;
}

}  // namespace hpu::graph_compiler
