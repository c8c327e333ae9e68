#include "compiler_server/ir/types.h"

#include <algorithm>

namespace hpu::ir {

int64_t ElementCount(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

int64_t TensorType::elements() const { return ElementCount(sizes); }

Dims ContiguousStrides(std::span<const int64_t> sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

TensorType Contiguous(DType dtype, Dims sizes) {
  TensorType type{.dtype = dtype, .sizes = std::move(sizes), .strides = {}};
  type.strides = ContiguousStrides(type.sizes);
  return type;
}

bool TensorType::contiguous() const {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

int64_t SpanElements(const TensorType& type) {
  int64_t last = 0;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i] == 0) return 0;
    last += (type.sizes[i] - 1) * type.strides[i];
  }
  return last + 1;
}

bool IsDensePermutation(const TensorType& type, Dims* perm) {
  // Strides of dimensions of size 1 say nothing: those stay at their own place.
  Dims moving;
  for (int64_t i = 0; i < type.rank(); ++i) {
    if (type.sizes[i] != 1) moving.push_back(i);
  }
  std::stable_sort(moving.begin(), moving.end(),
                   [&](int64_t a, int64_t b) { return type.strides[a] > type.strides[b]; });
  int64_t expected = 1;
  for (size_t i = moving.size(); i-- > 0;) {
    const int64_t size = type.sizes[moving[i]];
    if (size == 0 || type.strides[moving[i]] != expected) return false;
    expected *= size;
  }
  if (perm != nullptr) {
    perm->clear();
    size_t next = 0;
    for (int64_t i = 0; i < type.rank(); ++i) {
      perm->push_back(type.sizes[i] == 1 ? i : moving[next++]);
    }
  }
  return true;
}

bool BroadcastSizes(std::span<const int64_t> a, std::span<const int64_t> b, Dims* result) {
  if (a.size() < b.size()) std::swap(a, b);
  Dims sizes(a.begin(), a.end());
  const size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& size = sizes[lead + i];
    if (size == 1) {
      size = b[i];
    } else if (b[i] != 1 && b[i] != size) {
      return false;
    }
  }
  *result = std::move(sizes);
  return true;
}

std::string ToText(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

std::string ToText(const TensorType& type) {
  std::string text(DTypeName(type.dtype));
  text += ToText(std::span<const int64_t>(type.sizes));
  if (!type.contiguous()) {
    std::string strides = ToText(std::span<const int64_t>(type.strides));
    strides.front() = '{';
    strides.back() = '}';
    text += strides;
  }
  return text;
}

}  // namespace hpu::ir
