#include "graph_compiler/plan/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "graph_compiler/fusion/shared_memory.h"
#include "graph_compiler/plan/alignment.h"

namespace hpu::graph_compiler {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFF;

struct Slot {
  uint64_t bytes = 0;
  uint32_t first = 0;  // the slot is in use from kernel `first` to kernel `last`, both included
  uint32_t last = 0;
  uint64_t offset = 0;
};

// Placed slots, which are found by the kernels between which they are in use: each node of a binary
// tree over the kernels holds the slots that cover it.
class PlacedSlots {
 public:
  explicit PlacedSlots(size_t kernels) {
    while (leaves_ < kernels) leaves_ *= 2;
    covering_.resize(2 * leaves_);
  }

  void Add(uint32_t slot, uint32_t first, uint32_t last) {
    size_t low = leaves_ + first;
    size_t high = leaves_ + last + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) covering_[low++].push_back(slot);
      if (high % 2 == 1) covering_[--high].push_back(slot);
    }
    by_first_.emplace(first, slot);
  }

  // Returns the slots in use at some time from `first` to `last`: those in use at `first` and those
  // that come into use later.
  std::vector<uint32_t> InUse(uint32_t first, uint32_t last) const {
    std::vector<uint32_t> found;
    for (size_t node = leaves_ + first; node > 0; node /= 2) {
      found.insert(found.end(), covering_[node].begin(), covering_[node].end());
    }
    const auto end = by_first_.upper_bound(last);
    for (auto entry = by_first_.upper_bound(first); entry != end; ++entry) {
      found.push_back(entry->second);
    }
    return found;
  }

 private:
  size_t leaves_ = 1;
  std::vector<std::vector<uint32_t>> covering_;
  std::multimap<uint32_t, uint32_t> by_first_;
};

class Planner {
 public:
  Planner(const LoopGraph& graph, const std::vector<FusedKernel>& kernels)
      : graph_(graph),
        kernels_(kernels),
        first_(graph.values.size(), kNone),
        last_(graph.values.size(), 0),
        slot_of_(graph.values.size(), kNone) {}

  MemoryPlan Run(const std::vector<std::vector<ValueId>>& stored,
                 const std::vector<std::vector<ValueId>>& loaded,
                 const std::vector<uint64_t>& extra_bytes) {
    FindLifetimes(stored, loaded);
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      for (const ValueId value : stored[k]) {
        if (IsTemporary(value) && first_[value] == k) Assign(value, k, loaded[k]);
      }
    }
    std::vector<uint32_t> extra_slot(kernels_.size(), kNone);
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      if (extra_bytes[k] == 0) continue;
      extra_slot[k] = static_cast<uint32_t>(slots_.size());
      slots_.push_back({AlignUp(extra_bytes[k]), k, k, 0});
    }
    MemoryPlan plan;
    plan.bytes = Place();
    plan.value_offset.assign(graph_.values.size(), 0);
    for (ValueId v = 0; v < slot_of_.size(); ++v) {
      if (slot_of_[v] != kNone) plan.value_offset[v] = slots_[slot_of_[v]].offset;
    }
    plan.extra_offset.assign(kernels_.size(), 0);
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      if (extra_slot[k] != kNone) plan.extra_offset[k] = slots_[extra_slot[k]].offset;
    }
    return plan;
  }

 private:
  bool IsTemporary(ValueId value) const { return graph_.values[value].home == Home::kWorkspace; }

  void FindLifetimes(const std::vector<std::vector<ValueId>>& stored,
                     const std::vector<std::vector<ValueId>>& loaded) {
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      for (const auto* list : {&stored[k], &loaded[k]}) {
        for (const ValueId value : *list) {
          if (first_[value] == kNone) first_[value] = k;
          last_[value] = k;
        }
      }
    }
  }

  // Takes over the slot of an operand that dies here if the kernel may work in place.
  void Assign(ValueId value, uint32_t kernel, const std::vector<ValueId>& loaded) {
    const uint64_t bytes = AlignUp(graph_.values[value].bytes);
    for (const ValueId input : loaded) {
      const uint32_t slot = slot_of_[input];
      if (slot == kNone || slots_[slot].last != kernel || last_[input] != kernel) continue;
      if (slots_[slot].bytes != bytes || graph_.values[input].bytes != graph_.values[value].bytes) {
        continue;
      }
      if (!MayShareMemory(graph_, kernels_[kernel], input, value)) continue;
      slot_of_[value] = slot;
      slots_[slot].last = std::max(last_[value], kernel);
      return;
    }
    slot_of_[value] = static_cast<uint32_t>(slots_.size());
    slots_.push_back({bytes, kernel, std::max(last_[value], kernel), 0});
  }

  // Places the largest slots first, each into the smallest gap that is free over its whole
  // lifetime.
  uint64_t Place() {
    std::vector<uint32_t> order(slots_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t x, uint32_t y) { return slots_[x].bytes > slots_[y].bytes; });
    PlacedSlots placed(kernels_.size());
    uint64_t total = 0;
    for (const uint32_t index : order) {
      Slot& slot = slots_[index];
      uint64_t end = 0;
      uint64_t best = UINT64_MAX;
      uint64_t best_gap = UINT64_MAX;
      std::vector<uint32_t> others = placed.InUse(slot.first, slot.last);
      std::sort(others.begin(), others.end(),
                [&](uint32_t x, uint32_t y) { return slots_[x].offset < slots_[y].offset; });
      for (const uint32_t other_index : others) {
        const Slot& other = slots_[other_index];
        if (other.offset > end && other.offset - end >= slot.bytes &&
            other.offset - end < best_gap) {
          best = end;
          best_gap = other.offset - end;
        }
        end = std::max(end, other.offset + other.bytes);
      }
      slot.offset = best != UINT64_MAX ? best : end;
      total = std::max(total, slot.offset + slot.bytes);
      placed.Add(index, slot.first, slot.last);
    }
    return total;
  }

  const LoopGraph& graph_;
  const std::vector<FusedKernel>& kernels_;
  std::vector<uint32_t> first_;
  std::vector<uint32_t> last_;
  std::vector<uint32_t> slot_of_;
  std::vector<Slot> slots_;
};

}  // namespace

MemoryPlan PlanMemory(const LoopGraph& graph, const std::vector<FusedKernel>& kernels,
                      const std::vector<std::vector<ValueId>>& stored,
                      const std::vector<std::vector<ValueId>>& loaded,
                      const std::vector<uint64_t>& extra_bytes) {
  return Planner(graph, kernels).Run(stored, loaded, extra_bytes);
}

}  // namespace hpu::graph_compiler
