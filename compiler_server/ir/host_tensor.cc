#include "compiler_server/ir/host_tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/float16.h"
#include "base/float8.h"

namespace hpu::ir {
namespace {

// Converts as C does, but defines the cases that are undefined in C.
template <typename T>
double Wrap(double value) {
  if (std::isnan(value)) return 0;
  constexpr double kTwo63 = 9223372036854775808.0;
  if (value >= kTwo63) return static_cast<double>(std::numeric_limits<T>::max());
  if (value < -kTwo63) return static_cast<double>(std::numeric_limits<T>::min());
  return static_cast<double>(static_cast<T>(static_cast<int64_t>(value)));
}

template <typename T, typename F>
void CallUnlessVoid(F f) {
  if constexpr (!std::is_void_v<T>) f(std::type_identity<T>());
}

// Calls f with std::type_identity of the element type's C++ type, if it has one.
template <typename F>
void WithHostType(DType dtype, F f) {
  switch (dtype) {
#define HPU_DTYPE(symbol, name, bytes, kind, host, ...) \
  case DType::symbol:                                   \
    return CallUnlessVoid<host>(f);
#include "base/dtypes.inc"
#undef HPU_DTYPE
    case DType::kInvalid:
      return;
  }
}

template <typename T>
double LargestOf() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1.FEp127;
  if constexpr (std::is_same_v<T, _Float16>) return 65504;
  if constexpr (std::is_same_v<T, Float8E4M3>) return 448;
  if constexpr (std::is_same_v<T, Float8E5M2>) return 57344;
  return static_cast<double>(std::numeric_limits<T>::max());
}

template <typename T>
T FromDouble(double value) {
  if constexpr (std::is_same_v<T, int64_t>) {
    if (value >= 9223372036854775808.0) return std::numeric_limits<int64_t>::max();
  }
  return static_cast<T>(value);
}

}  // namespace

bool HasHostArithmetic(DType dtype) {
  bool known = false;
  WithHostType(dtype, [&](auto) { known = true; });
  return known;
}

double RoundTo(DType dtype, double value) {
  if (dtype == DType::kBool) return value != 0 ? 1 : 0;
  double rounded = value;
  WithHostType(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      rounded = Wrap<T>(value);
    } else {
      rounded = static_cast<double>(static_cast<T>(value));
    }
  });
  return rounded;
}

double Multiply(DType dtype, double x, double y) {
  constexpr double kExact = 0x1p53;
  constexpr double kRange = 0x1p63;
  const double product = x * y;
  if (!IsInteger(dtype) || std::fabs(product) <= kExact) return product;
  if (std::fabs(x) >= kRange || std::fabs(y) >= kRange) return product;
  const auto left = static_cast<uint64_t>(static_cast<int64_t>(x));
  const auto right = static_cast<uint64_t>(static_cast<int64_t>(y));
  double wrapped = product;
  WithHostType(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      wrapped = static_cast<double>(static_cast<T>(left * right));
    }
  });
  return wrapped;
}

bool HoldsNumber(DType dtype, double value) {
  if (dtype == DType::kBool) return true;
  bool holds = IsFloat(dtype) && !std::isfinite(value);
  WithHostType(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      holds = value >= static_cast<double>(std::numeric_limits<T>::min()) &&
              value <= static_cast<double>(std::numeric_limits<T>::max());
    } else {
      // Finite numbers count if they stay finite even when they are rounded upwards.
      holds = holds || std::abs(value) <= LargestOf<T>();
    }
  });
  return holds;
}

HostTensor MakeHostTensor(DType dtype, Dims sizes, double value) {
  HostTensor tensor{dtype, std::move(sizes), {}};
  tensor.data.assign(static_cast<size_t>(NumElements(tensor.sizes)), RoundTo(dtype, value));
  return tensor;
}

Bytes ToBytes(const HostTensor& tensor) {
  Bytes bytes;
  WithHostType(tensor.dtype, [&]<typename T>(std::type_identity<T>) {
    bytes.resize(tensor.data.size() * sizeof(T));
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      const T value = FromDouble<T>(tensor.data[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

HostTensor FromBytes(DType dtype, const Dims& sizes, std::span<const uint8_t> bytes) {
  HostTensor tensor{dtype, sizes, {}};
  const auto count = static_cast<size_t>(NumElements(sizes));
  if (bytes.size() < count * static_cast<size_t>(DTypeSize(dtype))) return tensor;
  tensor.data.resize(count);
  WithHostType(dtype, [&]<typename T>(std::type_identity<T>) {
    for (size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      tensor.data[i] = static_cast<double>(value);
    }
  });
  return tensor;
}

}  // namespace hpu::ir
