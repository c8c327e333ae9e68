#include "graph_compiler/ir/overlaps.h"

#include <algorithm>
#include <tuple>

namespace hpu::graph_compiler {

std::vector<std::vector<ValueId>> FindOverlaps(const LoopGraph& graph) {
  std::vector<ValueId> order;
  for (ValueId v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.home == Home::kPersistent && value.section != kNoSection) order.push_back(v);
  }
  std::sort(order.begin(), order.end(), [&](ValueId x, ValueId y) {
    const auto key = [&](ValueId v) {
      return std::tuple(graph.values[v].section, graph.values[v].byte_offset, v);
    };
    return key(x) < key(y);
  });
  std::vector<std::vector<ValueId>> overlaps(graph.values.size());
  std::vector<ValueId> open;  // of this section; they reach to the current one
  for (const ValueId v : order) {
    const Value& value = graph.values[v];
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](ValueId o) {
                                const Value& other = graph.values[o];
                                return other.section != value.section ||
                                       other.byte_offset + other.bytes <= value.byte_offset;
                              }),
               open.end());
    for (const ValueId o : open) {
      if (graph.values[o].byte_offset >= value.byte_offset + value.bytes) continue;
      overlaps[v].push_back(o);
      overlaps[o].push_back(v);
    }
    open.push_back(v);
  }
  for (std::vector<ValueId>& list : overlaps) std::sort(list.begin(), list.end());
  return overlaps;
}

}  // namespace hpu::graph_compiler
