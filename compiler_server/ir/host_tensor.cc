#include "compiler_server/ir/host_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace hpu::ir {
namespace {

float RoundBF16(double value) {
  const auto narrow = static_cast<float>(value);
  if (std::isnan(narrow)) return narrow;
  uint32_t bits = std::bit_cast<uint32_t>(narrow);
  bits += 0x7fff + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

// f16 has 11 significant bits, its smallest normal exponent is -14 and its largest value 65504.
double RoundF16(double value) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 11, -24));
  const double rounded = std::nearbyint(value / unit) * unit;
  if (std::fabs(rounded) > 65504) {
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  return rounded;
}

uint16_t BitsF16(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  if (value == 0) return sign;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // [0.5, 1)
  if (exponent < -13) {
    return sign | static_cast<uint16_t>(std::ldexp(std::fabs(value), 24));
  }
  const auto mantissa = static_cast<uint16_t>(std::ldexp(fraction, 11)) & 0x3ff;
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | mantissa);
}

double ValueF16(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  if (exponent == 0x1f) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// As a C conversion, without its undefined cases.
template <typename T>
double Wrap(double value) {
  if (std::isnan(value)) return 0;
  constexpr double kTwo63 = 9223372036854775808.0;
  if (value >= kTwo63) return static_cast<double>(std::numeric_limits<T>::max());
  if (value < -kTwo63) return static_cast<double>(std::numeric_limits<T>::min());
  return static_cast<double>(static_cast<T>(static_cast<int64_t>(value)));
}

// Calls f with a null pointer of the element type's C++ type.
template <typename F>
void WithStorageType(DType dtype, F f) {
  switch (dtype) {
    case DType::kF32:
      return f(static_cast<float*>(nullptr));
    case DType::kF64:
      return f(static_cast<double*>(nullptr));
    case DType::kI8:
      return f(static_cast<int8_t*>(nullptr));
    case DType::kU8:
    case DType::kBool:
      return f(static_cast<uint8_t*>(nullptr));
    case DType::kI16:
      return f(static_cast<int16_t*>(nullptr));
    case DType::kU16:
      return f(static_cast<uint16_t*>(nullptr));
    case DType::kI32:
      return f(static_cast<int32_t*>(nullptr));
    case DType::kU32:
      return f(static_cast<uint32_t*>(nullptr));
    case DType::kI64:
      return f(static_cast<int64_t*>(nullptr));
    default:
      return;
  }
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
  if (dtype == DType::kBF16 || dtype == DType::kF16) return true;
  bool known = false;
  WithStorageType(dtype, [&](auto*) { known = true; });
  return known;
}

double RoundTo(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(static_cast<float>(value));
    case DType::kBF16:
      return RoundBF16(value);
    case DType::kF16:
      return RoundF16(value);
    case DType::kBool:
      return value != 0 ? 1 : 0;
    case DType::kI8:
      return Wrap<int8_t>(value);
    case DType::kU8:
      return Wrap<uint8_t>(value);
    case DType::kI16:
      return Wrap<int16_t>(value);
    case DType::kU16:
      return Wrap<uint16_t>(value);
    case DType::kI32:
      return Wrap<int32_t>(value);
    case DType::kU32:
      return Wrap<uint32_t>(value);
    case DType::kI64:
      return Wrap<int64_t>(value);
    default:
      return value;
  }
}

HostTensor MakeHostTensor(DType dtype, Dims sizes, double value) {
  HostTensor tensor{dtype, std::move(sizes), {}};
  tensor.data.assign(static_cast<size_t>(ElementCount(tensor.sizes)), RoundTo(dtype, value));
  return tensor;
}

Bytes ToBytes(const HostTensor& tensor) {
  Bytes bytes;
  if (tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16) {
    bytes.reserve(tensor.data.size() * 2);
    for (double value : tensor.data) {
      const auto upper = std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
      const uint16_t bits =
          tensor.dtype == DType::kBF16 ? static_cast<uint16_t>(upper) : BitsF16(value);
      bytes.push_back(static_cast<uint8_t>(bits & 0xff));
      bytes.push_back(static_cast<uint8_t>(bits >> 8));
    }
    return bytes;
  }
  WithStorageType(tensor.dtype, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
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
  const auto count = static_cast<size_t>(ElementCount(sizes));
  if (bytes.size() < count * static_cast<size_t>(DTypeSize(dtype))) return tensor;
  tensor.data.resize(count);
  if (dtype == DType::kBF16 || dtype == DType::kF16) {
    for (size_t i = 0; i < count; ++i) {
      const auto bits = static_cast<uint16_t>(bytes[2 * i] | (bytes[2 * i + 1] << 8));
      tensor.data[i] = dtype == DType::kF16
                           ? ValueF16(bits)
                           : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
    return tensor;
  }
  WithStorageType(dtype, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    for (size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      tensor.data[i] = static_cast<double>(value);
    }
  });
  return tensor;
}

}  // namespace hpu::ir
