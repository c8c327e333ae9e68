#include "graph_compiler/fusion/loop_dims.h"

#include <algorithm>
#include <numeric>

#include "graph_compiler/codegen/cost.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kLongestChunk = 16384;  // the most elements in a task of a plain map
constexpr int64_t kShortestChunk = 1024;
constexpr int64_t kTasksWanted = 32;
constexpr int64_t kSmallestVectorRow = 4;  // rows shorter than this are not vectorised over
// Sums over the rows of a matrix walk down its columns: a task that takes a cache line of each row
// touches a page per line. With more lanes it takes several lines, if enough tasks are left and the
// sums stay in registers throughout.
constexpr int64_t kMostRowLanes = 64;
// Serial loops, such as those of scatters, keep no sums in registers.
constexpr int64_t kMostSerialLanes = 256;
constexpr int64_t kFewestWideTasks = 8;
constexpr int64_t kShortBody = 32;
constexpr size_t kFewSums = 2;

class DimOrder {
 public:
  DimOrder(LoopKernel& kernel, const Shape& domain) : kernel_(kernel), domain_(domain) {}

  void Order(size_t num_rows) {
    std::vector<size_t> order;
    SortDims(0, num_rows, &order);
    if (kernel_.serial) {
      for (size_t d = num_rows; d < domain_.size(); ++d) order.push_back(d);
    } else {
      SortDims(num_rows, domain_.size(), &order);
    }
    Reorder(order);
    if (!kernel_.serial) MergeDims(&num_rows);
    ChooseVector(num_rows);
  }

 private:
  template <typename Function>
  void ForEachAccess(const Function& function) {
    for (LoopPass& pass : kernel_.passes) {
      for (BodyOp& op : pass.body.ops) {
        if (op.op == Opcode::kLoad) function(op.access, false);
      }
      for (Store& store : pass.body.stores) function(store.access, true);
    }
  }

  // Returns whether the access reads or writes another element in each iteration, unlike a
  // broadcast one.
  bool IsFull(const Access& access) const {
    if (access.indirect_value != kNoValue) return true;
    for (size_t d = 0; d < domain_.size(); ++d) {
      if (domain_[d] > 1 && access.strides[d] == 0) return false;
    }
    return true;
  }

  // Returns how much of the traffic walks a dimension element by element. Work that passes do once
  // per row does not count beside work per element, and a broadcast access does not count beside
  // one that is not.
  int64_t UnitStrideScore(size_t dim) {
    int64_t score = 0;
    const auto count = [&](const Access& access, int64_t weight) {
      if (!access.operand.IsBuffer()) return;
      if (access.strides[dim] == 1) score += IsFull(access) ? weight : 1;
      if (access.strides[dim] == 0) score += 1;
    };
    for (const LoopPass& pass : kernel_.passes) {
      if (pass.row_level) continue;
      for (const BodyOp& op : pass.body.ops) {
        if (op.op == Opcode::kLoad) count(op.access, 4);
      }
      for (const Store& store : pass.body.stores) count(store.access, 5);
    }
    return score;
  }

  int64_t WalkStride(size_t dim) {
    int64_t stride = 0;
    ForEachAccess([&](const Access& access, bool is_store) {
      if (!access.operand.IsBuffer()) return;
      stride = std::max(stride, std::abs(access.strides[dim]) * 2 + (is_store ? 1 : 0));
    });
    return stride;
  }

  void Reorder(const std::vector<size_t>& order) {
    Shape domain;
    for (const size_t d : order) domain.push_back(domain_[d]);
    domain_ = domain;
    ForEachAccess([&](Access& access, bool) {
      Shape strides;
      for (const size_t d : order) strides.push_back(access.strides[d]);
      access.strides = strides;
    });
  }

  bool CanMerge(size_t dim) {
    bool fits = true;
    ForEachAccess([&](const Access& access, bool) {
      fits = fits && access.strides[dim] == access.strides[dim + 1] * domain_[dim + 1];
    });
    return fits;
  }

  void Erase(size_t dim) {
    domain_.erase(domain_.begin() + static_cast<int64_t>(dim));
    ForEachAccess([&](Access& access, bool) {
      access.strides.erase(access.strides.begin() + static_cast<int64_t>(dim));
    });
  }

  // Drops dimensions of size 1 and merges neighbours, within rows and within columns. One column
  // stays, because a kernel without columns is a map.
  void MergeDims(size_t* num_rows) {
    for (size_t d = domain_.size(); d-- > 0;) {
      if (domain_[d] != 1 || (d == *num_rows && d + 1 == domain_.size())) continue;
      Erase(d);
      if (d < *num_rows) --*num_rows;
    }
    for (size_t d = domain_.size(); d-- > 1;) {
      if (d == *num_rows || !CanMerge(d - 1)) continue;
      domain_[d] *= domain_[d - 1];
      Erase(d - 1);
      if (d - 1 < *num_rows) --*num_rows;
    }
  }

  void SortDims(size_t begin, size_t end, std::vector<size_t>* order) {
    std::vector<size_t> part(end - begin);
    std::iota(part.begin(), part.end(), begin);
    std::stable_sort(part.begin(), part.end(),
                     [&](size_t x, size_t y) { return WalkStride(x) > WalkStride(y); });
    order->insert(order->end(), part.begin(), part.end());
  }

  size_t BestDim(size_t begin, size_t end) {
    size_t best = begin;
    for (size_t d = begin; d < end; ++d) {
      const auto key = [&](size_t dim) {
        return std::pair(UnitStrideScore(dim), domain_[dim] >= kSmallestVectorRow);
      };
      if (key(d) >= key(best)) best = d;
    }
    return best;
  }

  void AddUnitDim() {
    domain_.push_back(1);
    ForEachAccess([](Access& access, bool) { access.strides.push_back(0); });
  }

  void ChooseVector(size_t num_rows) {
    const bool has_columns = num_rows < domain_.size();
    kernel_.vector_is_row = true;
    size_t vector = domain_.size();
    if (!has_columns || kernel_.serial) {
      if (num_rows > 0) vector = BestDim(0, num_rows);
      // Lanes of rows that lie far apart would read and write a line of memory each, so a row whose
      // elements are neighbours is walked alone.
      if (num_rows > 0 && has_columns &&
          UnitStrideScore(BestDim(num_rows, domain_.size())) > UnitStrideScore(vector)) {
        vector = domain_.size();
      }
    } else {
      vector = BestDim(0, domain_.size());
      // Ties, and rows too short for vectors, go to the columns.
      const size_t column = BestDim(num_rows, domain_.size());
      if (vector < num_rows && (domain_[vector] < kSmallestVectorRow ||
                                UnitStrideScore(column) >= UnitStrideScore(vector))) {
        vector = column;
      }
      kernel_.vector_is_row = vector < num_rows;
    }
    if (vector == domain_.size()) {
      AddUnitDim();
    } else {
      std::vector<size_t> order;
      for (size_t d = 0; d < domain_.size(); ++d) {
        if (d != vector) order.push_back(d);
      }
      order.push_back(vector);
      Reorder(order);
      if (vector < num_rows) --num_rows;
    }
    const bool plain_map = !has_columns;
    kernel_.vector = domain_.back();
    kernel_.outer.assign(domain_.begin(), domain_.begin() + static_cast<int64_t>(num_rows));
    kernel_.inner.assign(domain_.begin() + static_cast<int64_t>(num_rows), domain_.end() - 1);
    if (plain_map) {
      // Every element is its own row, so the vector dimension is walked like a column, in chunks.
      kernel_.vector_is_row = false;
      const int64_t chunk = ChunkLength();
      if (kernel_.vector > chunk) kernel_.vector_chunk = chunk;
      TakeRows(chunk);
    }
    if (kernel_.vector_is_row) kernel_.row_lanes = RowLanes();
    // Scratch rows of a kernel with rows as lanes hold one vector per column.
    if (kernel_.vector_is_row && !kernel_.scratch_bytes.empty()) WidenScratch();
  }

  // Returns whether nothing is calculated. Dimensions stay whole for copies that exchange two of
  // them (contraction/transpose_copy.h).
  bool IsCopy() const {
    return std::all_of(kernel_.passes.begin(), kernel_.passes.end(),
                       [](const LoopPass& pass) { return pass.body.ops.size() == 1; });
  }

  // For a map: a task walks consecutive rows, up to about `chunk` elements.
  void TakeRows(int64_t chunk) {
    if (IsCopy() || kernel_.vector == 0) return;
    int64_t elements = kernel_.vector;
    int64_t tasks = NumElements(kernel_.outer);
    while (!kernel_.outer.empty()) {
      const size_t dim = kernel_.outer.size() - 1;
      const int64_t size = kernel_.outer[dim];
      int64_t rows = std::min({size, chunk / elements, tasks / kTasksWanted});
      while (rows > 1 && size % rows != 0) --rows;
      if (rows <= 1) return;
      if (rows == size) {
        kernel_.outer.pop_back();
      } else {
        kernel_.outer[dim] = size / rows;
        ForEachAccess([&](Access& access, bool) {
          const int64_t stride = access.strides[dim];
          access.strides[dim] = stride * rows;
          access.strides.insert(access.strides.begin() + static_cast<int64_t>(dim) + 1, stride);
        });
      }
      kernel_.inner.insert(kernel_.inner.begin(), rows);
      if (rows != size) return;
      elements *= rows;
      tasks /= rows;
    }
  }

  // Takes more than a cache line of each column where bodies are short, so that registers are left
  // for several sums, and enough tasks are left.
  int64_t RowLanes() {
    int64_t cost = 0;
    size_t sums = 0;
    for (const LoopPass& pass : kernel_.passes) {
      cost = std::max(cost, int64_t{TotalCost(pass.body)});
      if (!pass.row_level) sums = std::max(sums, pass.results.size());
    }
    int64_t lanes = kRowLanes;
    if (cost > kShortBody || sums > kFewSums) return lanes;
    const int64_t rows = NumElements(kernel_.outer) * kernel_.vector;
    const int64_t most = kernel_.serial ? kMostSerialLanes : kMostRowLanes;
    while (lanes < most && kernel_.vector % (lanes * 2) == 0 &&
           rows / (lanes * 2) >= kFewestWideTasks) {
      lanes *= 2;
    }
    return lanes;
  }

  int64_t ChunkLength() {
    int64_t cost = 1;
    for (const LoopPass& pass : kernel_.passes) cost += TotalCost(pass.body);
    return std::clamp<int64_t>(kCostWorthAThread / cost / kShortestChunk * kShortestChunk,
                               kShortestChunk, kLongestChunk);
  }

  void WidenScratch() {
    for (uint64_t& bytes : kernel_.scratch_bytes) bytes *= static_cast<uint64_t>(kernel_.row_lanes);
    ForEachAccess([&](Access& access, bool) {
      if (access.operand.kind != Operand::Kind::kScratch) return;
      for (int64_t& stride : access.strides) stride *= kernel_.row_lanes;
      access.strides.back() = 1;
    });
  }

  LoopKernel& kernel_;
  Shape domain_;
};

}  // namespace

void OrderDims(LoopKernel& kernel, const Shape& domain, size_t num_rows) {
  DimOrder(kernel, domain).Order(num_rows);
}

}  // namespace hpu::graph_compiler
