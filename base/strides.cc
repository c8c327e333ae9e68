#include "base/strides.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace hpu {

int64_t NumElements(DimsView sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

Dims RowMajorStrides(DimsView sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

int64_t SpanElements(DimsView sizes, DimsView strides, int64_t offset) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  int64_t last = offset;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t step = 0;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return -1;
    }
  }
  return last == INT64_MAX ? -1 : last + 1;
}

bool IsRowMajor(DimsView sizes, DimsView strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

std::vector<size_t> StrideOrder(DimsView strides) {
  std::vector<size_t> order(strides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  return order;
}

Dims StridesInOrderOf(DimsView sizes, DimsView like) {
  const std::vector<size_t> order = StrideOrder(like);
  Dims nested(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) nested[i] = sizes[order[i]];
  const Dims row_major = RowMajorStrides(nested);
  Dims strides(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) strides[order[i]] = row_major[i];
  return strides;
}

bool IsDense(DimsView sizes, DimsView strides, Dims* perm) {
  std::vector<size_t> moving = StrideOrder(strides);
  std::erase_if(moving, [&](size_t d) { return sizes[d] == 1; });
  int64_t expected = 1;
  for (size_t i = moving.size(); i-- > 0;) {
    const size_t d = moving[i];
    if (sizes[d] == 0 || strides[d] != expected) return false;
    expected *= sizes[d];
  }
  if (perm != nullptr) {
    perm->resize(sizes.size());
    size_t next = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      (*perm)[d] = static_cast<int64_t>(sizes[d] == 1 ? d : moving[next++]);
    }
  }
  return true;
}

namespace {

// The sizes of a layout by stride, the largest first; nullopt if two dimensions have the same one.
using Box = std::map<int64_t, int64_t, std::greater<>>;

std::optional<Box> BoxOf(DimsView sizes, DimsView strides) {
  Box box;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (strides[d] <= 0 || !box.emplace(strides[d], sizes[d]).second) return std::nullopt;
  }
  return box;
}

}  // namespace

bool AreDisjoint(DimsView sizes_a, DimsView strides_a, DimsView sizes_b, DimsView strides_b,
                 int64_t distance) {
  if (NumElements(sizes_a) == 0 || NumElements(sizes_b) == 0) return true;
  if (distance < 0) return AreDisjoint(sizes_b, strides_b, sizes_a, strides_a, -distance);
  if (distance >= SpanElements(sizes_a, strides_a)) return true;
  std::optional<Box> a = BoxOf(sizes_a, strides_a);
  std::optional<Box> b = BoxOf(sizes_b, strides_b);
  if (!a.has_value() || !b.has_value()) return false;
  a->emplace(1, 1);
  for (const auto& [stride, size] : *a) b->emplace(stride, 1);
  for (const auto& [stride, size] : *b) a->emplace(stride, 1);
  bool apart = false;
  int64_t left = distance;
  // Each element of the grid that holds both boxes must have an address of its own. `finer` is the
  // distance from the first to the last of those that one step of a larger stride passes over.
  Dims steps;
  for (const auto& [stride, size] : *a) {
    steps.push_back(left / stride);
    left %= stride;
    apart |= steps.back() >= size;
  }
  if (left != 0 || !apart) return false;
  int64_t finer = 0;
  size_t k = steps.size();
  for (auto place = a->rbegin(); place != a->rend(); ++place) {
    const auto [stride, size] = *place;
    if (stride <= finer) return false;
    finer += stride * (std::max(size, steps[--k] + b->at(stride)) - 1);
  }
  return true;
}

std::optional<Dims> BroadcastSizes(DimsView a, DimsView b) {
  if (a.size() < b.size()) std::swap(a, b);
  Dims sizes(a.begin(), a.end());
  const size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& size = sizes[lead + i];
    if (size == 1) {
      size = b[i];
    } else if (b[i] != 1 && b[i] != size) {
      return std::nullopt;
    }
  }
  return sizes;
}

Dims BroadcastStrides(DimsView sizes, DimsView strides, DimsView to) {
  Dims result(to.size(), 0);
  const size_t lead = to.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == to[lead + d]) result[lead + d] = strides[d];
  }
  return result;
}

std::optional<Dims> ReshapeStrides(DimsView sizes, DimsView strides, DimsView to) {
  const int64_t count = NumElements(to);
  if (NumElements(sizes) != count) return std::nullopt;
  if (count == 0) return RowMajorStrides(to);
  // A run of dimensions, merged with their neighbours where one stride describes both.
  struct Run {
    int64_t size;
    int64_t stride;
  };
  std::vector<Run> runs;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (!runs.empty() && runs.back().stride == sizes[d] * strides[d]) {
      runs.back() = {runs.back().size * sizes[d], strides[d]};
    } else {
      runs.push_back({sizes[d], strides[d]});
    }
  }
  // Each run must consist of whole new dimensions, innermost first.
  Dims result(to.size());
  Run left{1, 1};
  for (size_t d = to.size(); d-- > 0;) {
    if (to[d] != 1 && left.size == 1) {
      left = runs.back();
      runs.pop_back();
    }
    if (left.size % to[d] != 0) return std::nullopt;
    result[d] = left.stride;
    left = {left.size / to[d], left.stride * to[d]};
  }
  return result;
}

}  // namespace hpu
