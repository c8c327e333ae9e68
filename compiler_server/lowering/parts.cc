#include "compiler_server/lowering/parts.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler_server/lowering/segment.h"

namespace hpu::compiler {
namespace {

using ir::Value;

// Describes a graph, by position in its order.
struct Traffic {
  std::vector<int64_t> before;    // bytes whose life begins or ends at a node before it
  std::vector<int64_t> crossing;  // bytes that cross if a part ends after the node
  int64_t share = 0;              // the part of `before` that a part should have
};

Traffic Measure(const ir::Graph& graph, const SegmentPlan& plan, int64_t least_part_bytes) {
  const size_t count = graph.nodes().size();
  Traffic traffic{std::vector<int64_t>(count + 1), std::vector<int64_t>(count)};
  std::vector<int64_t> turnover(count);
  std::vector<std::optional<size_t>> made(graph.value_count()), last_use(graph.value_count());
  for (size_t i = 0; i < count; ++i) {
    const ir::Node& node = *graph.nodes()[i];
    if (plan.IsFree(node)) continue;
    for (const Value* result : node.results) made[result->id] = i;
    for (Value* operand : node.operands) {
      if (operand != nullptr) last_use[plan.Root(operand)->id] = i;
    }
  }
  std::vector<bool> stored(graph.value_count());
  for (const ir::Storage& storage : graph.storages()) {
    const Value& root = *plan.Root(storage.value);
    if (!made[root.id].has_value()) continue;
    // A value that is stored in the part that makes it needs no further memory.
    stored[root.id] = true;
    turnover[*made[root.id]] += storage.value->type.bytes();
  }
  for (const ir::Input& input : graph.inputs()) {
    if (!input.donated || !last_use[input.value->id].has_value()) continue;
    turnover[*last_use[input.value->id]] += input.value->type.bytes();
  }
  std::partial_sum(turnover.begin(), turnover.end(), traffic.before.begin() + 1);
  traffic.share = std::max(traffic.before.back() / kParts, least_part_bytes);
  std::vector<int64_t> change(count + 1);
  for (const ir::Node* node : graph.nodes()) {
    for (const Value* result : node->results) {
      const auto& [begin, end] = std::pair(made[result->id], last_use[result->id]);
      if (!begin.has_value() || !end.has_value() || stored[result->id]) continue;
      // A value that lives long crosses wherever parts end.
      if (traffic.before[*end] - traffic.before[*begin + 1] > traffic.share) continue;
      change[*begin] += result->type.bytes();
      change[*end] -= result->type.bytes();
    }
  }
  int64_t crossing = 0;
  for (size_t i = 0; i < count; ++i) traffic.crossing[i] = crossing += change[i];
  return traffic;
}

// Returns the last node of the part that starts at `begin`. It is the narrowest of the places where
// the part has between 1/2 and 3/2 of its share; of equally narrow ones, the last that does not
// exceed the share. If all of them are too wide, a later place is taken. Returns nullopt if no
// place is narrow, or if too little would remain after it.
std::optional<size_t> EndOfPart(const Traffic& traffic, size_t begin) {
  const auto& [before, crossing, share] = traffic;
  const int64_t widest = share / 2;
  std::optional<size_t> best;
  if (before.back() - before[begin] <= share + share / 2) return best;
  for (size_t i = begin; i < crossing.size(); ++i) {
    const int64_t bytes = before[i + 1] - before[begin];
    if (bytes < share / 2 || crossing[i] > widest) continue;
    if (before.back() - before[i + 1] < share / 2) break;
    if (best.has_value() && bytes > share + share / 2) break;
    const bool narrower = !best.has_value() || crossing[i] < crossing[*best];
    if (narrower || (crossing[i] == crossing[*best] && bytes <= share)) best = i;
  }
  return best;
}

}  // namespace

std::vector<uint32_t> PlanParts(const ir::Graph& graph, const SegmentPlan& plan,
                                int64_t least_part_bytes) {
  const size_t count = graph.nodes().size();
  std::vector<uint32_t> parts(count);
  const bool donated = std::any_of(graph.inputs().begin(), graph.inputs().end(),
                                   [](const ir::Input& input) { return input.donated; });
  if (!donated) return parts;
  const Traffic traffic = Measure(graph, plan, least_part_bytes);
  std::vector<bool> ends(count);
  for (size_t begin = 0; begin < count;) {
    const std::optional<size_t> end = EndOfPart(traffic, begin);
    if (!end.has_value()) break;
    ends[*end] = true;
    begin = *end + 1;
  }
  for (size_t i = 1; i < count; ++i) parts[i] = parts[i - 1] + (ends[i - 1] ? 1 : 0);
  return parts;
}

}  // namespace hpu::compiler
