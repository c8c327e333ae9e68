// The floats of 8 bits on the host. They convert as PyTorch's do: to nearest with ties to even.
// Past the largest finite number e5m2 has infinity, and e4m3, which has none, stays at that number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hpu {

template <int exponent_bits, int mantissa_bits, bool has_infinity>
class Float8 {
 public:
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr uint8_t kNan = 0x7f;
  static constexpr uint8_t kLargest = has_infinity ? 0x7b : 0x7e;  // the largest finite number
  static constexpr uint8_t kOverflow = has_infinity ? 0x7c : kLargest;

  Float8() = default;
  // Converts through f32, as PyTorch and the device do.
  explicit Float8(double value) {
    const double narrow = static_cast<double>(static_cast<float>(value));
    const uint8_t sign = std::signbit(narrow) ? 0x80 : 0;
    bits_ = static_cast<uint8_t>(sign | Magnitude(std::abs(narrow)));
  }
  explicit operator double() const {
    const double sign = (bits_ & 0x80) != 0 ? -1 : 1;
    const auto magnitude = static_cast<uint8_t>(bits_ & 0x7f);
    if (magnitude > kLargest) {
      const bool infinite = has_infinity && magnitude == kOverflow;
      return infinite ? sign * std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::quiet_NaN();
    }
    const int exponent = magnitude >> mantissa_bits;
    const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    return sign * std::ldexp(whole, std::max(exponent, 1) - kBias - mantissa_bits);
  }

 private:
  static uint8_t Magnitude(double value) {
    if (std::isnan(value)) return kNan;
    if (std::isinf(value)) return kOverflow;
    const int lowest = 1 - kBias;
    const int exponent = value == 0 ? lowest : std::max(std::ilogb(value), lowest);
    // The number of steps of the exponent; one step too many carries into the exponent.
    const auto steps =
        static_cast<int>(std::nearbyint(std::ldexp(value, mantissa_bits - exponent)));
    const int code = ((exponent - lowest) << mantissa_bits) + steps;
    return code > kLargest ? kOverflow : static_cast<uint8_t>(code);
  }

  uint8_t bits_ = 0;
};

using Float8E4M3 = Float8<4, 3, false>;
using Float8E5M2 = Float8<5, 2, true>;

}  // namespace hpu
