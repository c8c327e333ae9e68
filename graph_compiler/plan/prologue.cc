#include "graph_compiler/plan/prologue.h"

#include <algorithm>
#include <utility>

#include "graph_compiler/ir/overlaps.h"
#include "graph_compiler/plan/alignment.h"

namespace hpu::graph_compiler {
namespace {

// The limit for the results of a map that outgrow its sources.
constexpr uint64_t kSmallBytes = 1 << 20;
constexpr uint64_t kAlwaysKept = 4 << 20;    // limit for all kept values
constexpr uint64_t kWeightsPerKeptByte = 4;  // beyond kAlwaysKept

class PrologueFinder {
 public:
  PrologueFinder(LoopGraph& graph, std::vector<FusedKernel>& kernels)
      : graph_(graph),
        kernels_(kernels),
        made_(graph.values.size(), false),
        in_prologue_(kernels.size(), true) {
    for (const FusedKernel& kernel : kernels_) {
      reads_.push_back(ReadsOf(graph_, kernel));
      writes_.push_back(WritesOf(graph_, kernel));
    }
    FindKnownValues();
  }

  Prologue Run() {
    for (ValueId v = 0; v < made_.size(); ++v) {
      made_[v] = graph_.values[v].home == Home::kWorkspace;
    }
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (IsCustom(k) || !IsWorthKeeping(k)) TakeOut(k);
    }
    Settle();
    DropDownTo(std::max(kAlwaysKept, weight_bytes_ / kWeightsPerKeptByte));
    return Move();
  }

 private:
  // Finds the weights that no kernel writes and whose memory no kernel writes either.
  void FindKnownValues() {
    std::vector<bool> written(graph_.values.size(), false);
    for (const std::vector<ValueId>& values : writes_) {
      for (const ValueId value : values) written[value] = true;
    }
    const std::vector<std::vector<ValueId>> overlaps = FindOverlaps(graph_);
    known_.assign(graph_.values.size(), false);
    for (ValueId v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      known_[v] = value.home == Home::kConstant;
      if (!value.weight || written[v]) continue;
      known_[v] = std::none_of(overlaps[v].begin(), overlaps[v].end(),
                               [&](ValueId other) { return written[other]; });
      if (known_[v]) weight_bytes_ += value.bytes;
    }
  }

  uint64_t BytesOf(const std::vector<ValueId>& values) const {
    uint64_t bytes = 0;
    for (const ValueId value : values) bytes += graph_.values[value].bytes;
    return bytes;
  }

  // A kernel of the caller's own may fail, and its failure must not be kept.
  bool IsCustom(size_t k) const {
    return !kernels_[k].is_loop && graph_.nodes[kernels_[k].nodes[0]].Is<CustomCall>();
  }

  bool IsWorthKeeping(size_t k) const {
    const uint64_t results = BytesOf(writes_[k]);
    return !kernels_[k].is_loop || results <= std::max(kSmallBytes, BytesOf(reads_[k]));
  }

  void TakeOut(size_t k) {
    in_prologue_[k] = false;
    for (const ValueId value : writes_[k]) made_[value] = false;
  }

  // Takes kernels out until all that are left read only known values and each other's results, and
  // share none of their results with a kernel that is out. One round handles a whole chain because
  // writers come before readers.
  void Settle() {
    const auto fits = [&](size_t k) {
      return std::all_of(reads_[k].begin(), reads_[k].end(),
                         [&](ValueId v) { return known_[v] || made_[v]; }) &&
             std::all_of(writes_[k].begin(), writes_[k].end(), [&](ValueId v) { return made_[v]; });
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t k = 0; k < kernels_.size(); ++k) {
        if (!in_prologue_[k] || fits(k)) continue;
        TakeOut(k);
        changed = true;
      }
    }
  }

  std::vector<ValueId> Kept() const {
    std::vector<bool> read(graph_.values.size(), false);
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (in_prologue_[k]) continue;
      for (const ValueId value : reads_[k]) read[value] = true;
    }
    std::vector<ValueId> kept;
    for (ValueId v = 0; v < graph_.values.size(); ++v) {
      if (made_[v] && read[v]) kept.push_back(v);
    }
    return kept;
  }

  // Takes out the kernels with the largest results first.
  void DropDownTo(uint64_t bytes) {
    uint64_t largest = 0;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (in_prologue_[k]) largest = std::max(largest, BytesOf(writes_[k]));
    }
    for (; BytesOf(Kept()) > bytes; largest /= 2) {
      for (size_t k = 0; k < kernels_.size(); ++k) {
        if (in_prologue_[k] && 2 * BytesOf(writes_[k]) >= largest) TakeOut(k);
      }
      Settle();
    }
  }

  Prologue Move() {
    Prologue prologue;
    for (const ValueId v : Kept()) {
      graph_.values[v].home = Home::kKept;
      graph_.values[v].byte_offset = prologue.kept_bytes;
      prologue.kept_bytes += AlignUp(graph_.values[v].bytes);
    }
    if (prologue.kept_bytes == 0) return prologue;
    std::vector<FusedKernel> ordered;
    for (const bool first : {true, false}) {
      for (size_t k = 0; k < kernels_.size(); ++k) {
        if (in_prologue_[k] == first) ordered.push_back(std::move(kernels_[k]));
      }
    }
    kernels_ = std::move(ordered);
    prologue.kernels =
        static_cast<size_t>(std::count(in_prologue_.begin(), in_prologue_.end(), true));
    return prologue;
  }

  LoopGraph& graph_;
  std::vector<FusedKernel>& kernels_;
  std::vector<std::vector<ValueId>> reads_, writes_;  // by kernel
  std::vector<bool> known_;                           // by value: weights and constants
  std::vector<bool> made_;  // by value: temporaries that no kernel outside the prologue writes
  std::vector<bool> in_prologue_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace

Prologue MovePrologueFirst(LoopGraph& graph, std::vector<FusedKernel>& kernels) {
  return PrologueFinder(graph, kernels).Run();
}

}  // namespace hpu::graph_compiler
