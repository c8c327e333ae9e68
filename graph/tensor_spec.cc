#include "graph/tensor_spec.h"

#include <ostream>

#include "base/strides.h"

namespace hpu {
namespace {

void Join(std::ostream& out, const std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) out << (i ? "," : "") << values[i];
}

}  // namespace

int64_t SpanElements(const TensorSpec& spec) {
  return SpanElements(spec.sizes, spec.strides, spec.storage_offset);
}

absl::Status CheckSpec(const TensorSpec& spec, std::string_view what) {
  if (spec.sizes.size() != spec.strides.size()) {
    return DataLoss(what, ": ", spec.sizes.size(), " sizes but ", spec.strides.size(), " strides");
  }
  if (spec.sizes.size() > kMaxTensorRank) return DataLoss(what, ": rank ", spec.sizes.size());
  if (DTypeSize(spec.dtype) == 0) return DataLoss(what, ": no dtype");
  for (size_t d = 0; d < spec.sizes.size(); ++d) {
    if (spec.sizes[d] < 0 || spec.strides[d] < 0) {
      return DataLoss(what, ": negative size or stride");
    }
  }
  // The span is checked in bytes as well, because the code below multiplies.
  const int64_t span = SpanElements(spec);
  if (spec.storage_offset < 0 || span < 0 || span > INT64_MAX / DTypeSize(spec.dtype)) {
    return DataLoss(what, ": elements out of range");
  }
  return absl::OkStatus();
}

void PutSpec(ByteWriter& out, const TensorSpec& spec) {
  out.Put(spec.dtype);
  out.PutVector(spec.sizes);
  out.PutVector(spec.strides);
  out.Put(spec.storage_offset);
}

absl::Status GetDType(ByteReader& in, DType* dtype) {
  uint8_t raw = 0;
  RETURN_IF_ERROR(in.Get(&raw));
  if (raw == 0 || raw >= kNumDTypes) return DataLoss("unknown dtype number ", int{raw});
  *dtype = static_cast<DType>(raw);
  return absl::OkStatus();
}

absl::Status GetSpec(ByteReader& in, TensorSpec* spec) {
  RETURN_IF_ERROR(GetDType(in, &spec->dtype));
  RETURN_IF_ERROR(in.GetVector(&spec->sizes));
  RETURN_IF_ERROR(in.GetVector(&spec->strides));
  return in.Get(&spec->storage_offset);
}

void PrintSpec(std::ostream& out, const TensorSpec& spec) {
  out << DTypeName(spec.dtype) << "[";
  Join(out, spec.sizes);
  out << "]{";
  Join(out, spec.strides);
  out << "}";
  if (spec.storage_offset != 0) out << "@" << spec.storage_offset;
}

}  // namespace hpu
