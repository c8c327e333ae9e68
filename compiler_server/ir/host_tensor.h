// Tensors on the host, for constants and the reference interpreter. Every element is a double that
// is rounded to its type after each op. Integers beyond 2^53 are not exact.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "compiler_server/ir/types.h"

namespace hpu::ir {

struct HostTensor {
  DType dtype = DType::kF32;
  Dims sizes;
  std::vector<double> data;  // row-major

  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t elements() const { return static_cast<int64_t>(data.size()); }
};

// Rounds to the nearest value of the type (ties to even). Integers truncate and wrap; booleans are
// x != 0.
double RoundTo(DType dtype, double value);
// Returns x * y. Integers up to 64 bits wrap around, which the double of a large product would not.
double Multiply(DType dtype, double x, double y);
// Whether PyTorch accepts the number as a value of the type without an error: it is inside the
// type's range, or it is infinite or NaN and the type has that.
bool HoldsNumber(DType dtype, double value);
HostTensor MakeHostTensor(DType dtype, Dims sizes, double value = 0);

// Converts to element bytes, little endian and row-major. Types without arithmetic here (complex,
// f8) give an empty result.
Bytes ToBytes(const HostTensor& tensor);
HostTensor FromBytes(DType dtype, const Dims& sizes, std::span<const uint8_t> bytes);
bool HasHostArithmetic(DType dtype);

// Walks all index tuples of `sizes` in row-major order.
class IndexWalk {
 public:
  explicit IndexWalk(const Dims& sizes) : sizes_(sizes), index_(sizes.size(), 0) {}
  const Dims& operator*() const { return index_; }
  int64_t operator[](size_t i) const { return index_[i]; }
  void Next() {
    for (size_t i = sizes_.size(); i-- > 0;) {
      if (++index_[i] < sizes_[i]) return;
      index_[i] = 0;
    }
  }
  // The position in memory with these strides.
  int64_t Offset(const Dims& strides) const {
    int64_t offset = 0;
    for (size_t i = 0; i < index_.size(); ++i) offset += index_[i] * strides[i];
    return offset;
  }

 private:
  const Dims& sizes_;
  Dims index_;
};

}  // namespace hpu::ir
