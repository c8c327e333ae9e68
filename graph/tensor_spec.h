// A tensor's element type and layout in our own formats (graph, program). Sizes, strides and
// offsets are in elements and in PyTorch dimension order (outermost first).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/status.h"

namespace hpu {

inline constexpr size_t kMaxTensorRank = 25;  // HABANA_DIM_MAX

struct TensorSpec {
  DType dtype = DType::kInvalid;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;  // relative to the start of the memory that the tensor lies in

  bool operator==(const TensorSpec&) const = default;
};

// Returns the elements from the start of the memory that the tensor lies in to its last one,
// inclusive; 0 for an empty tensor, negative if that overflows.
int64_t SpanElements(const TensorSpec& spec);
// Returns DATA_LOSS, naming `what`, unless dtype, rank, sizes and strides make sense and every
// reachable element has an address in bytes.
absl::Status CheckSpec(const TensorSpec& spec, std::string_view what);

void PutSpec(ByteWriter& out, const TensorSpec& spec);
// These check only the dtype's number; CheckSpec checks the rest.
absl::Status GetSpec(ByteReader& in, TensorSpec* spec);
absl::Status GetDType(ByteReader& in, DType* dtype);

// Prints f32[2,3]{3,1}@4.
void PrintSpec(std::ostream& out, const TensorSpec& spec);

}  // namespace hpu
