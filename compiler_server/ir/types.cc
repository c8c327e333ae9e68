#include "compiler_server/ir/types.h"

namespace hpu::ir {

TensorType Contiguous(DType dtype, Dims sizes) {
  TensorType type{.dtype = dtype, .sizes = std::move(sizes), .strides = {}};
  type.strides = RowMajorStrides(type.sizes);
  return type;
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
