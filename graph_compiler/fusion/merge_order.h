// An order of items that depend on each other, which stays current while items are merged.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace hpu::graph_compiler {

// Every item stands before those that depend on it. Two items can become one when no other item
// stands in between, that is, depends on one of them and is needed by the other. Checking that
// takes a look at the items between the two in the order, not at the whole graph.
class MergeOrder {
 public:
  // Calls `visit` with each item that depends on `item` directly; repeats and the item itself are
  // allowed.
  using Visit = std::function<void(uint32_t)>;
  using Successors = std::function<void(uint32_t item, const Visit& visit)>;

  MergeOrder() = default;
  // The items are 0 .. count - 1. Their dependencies must have no circle.
  MergeOrder(uint32_t count, const Successors& successors);

  bool IsBefore(uint32_t first, uint32_t second) const { return place_[first] < place_[second]; }
  // Merges `gone` into `kept`. Returns false and changes nothing if another item stands in between.
  bool Merge(uint32_t kept, uint32_t gone, const Successors& successors);

 private:
  std::vector<uint32_t> place_;  // by item
  std::vector<uint32_t> item_;   // by place; kNobody where an item was merged into another
  std::vector<uint32_t> visited_;
  uint32_t round_ = 0;
};

}  // namespace hpu::graph_compiler
