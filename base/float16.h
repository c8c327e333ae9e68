// The 16-bit floats on the host. f16 is the compiler's _Float16; BFloat16 converts like it: round
// to nearest, ties to even, values past the largest finite one to infinity, a NaN to one with
// its sign and the upper bits of its payload.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace hpu {

class BFloat16 {
 public:
  BFloat16() = default;
  // By way of f32, as PyTorch and the device convert.
  explicit BFloat16(double value) {
    const auto narrow = static_cast<float>(value);
    const auto wide = std::bit_cast<uint32_t>(narrow);
    bits_ = static_cast<uint16_t>(std::isnan(narrow) ? (wide >> 16) | 0x40
                                                     : (wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  explicit operator double() const {
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits_) << 16));
  }

 private:
  uint16_t bits_ = 0;
};

}  // namespace hpu
