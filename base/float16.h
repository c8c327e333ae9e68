// The 16-bit floats on the host. f16 is the compiler's _Float16. BFloat16 converts in the same way:
// it rounds to nearest with ties to even, values past the largest finite one become infinity, and a
// NaN becomes one with its sign and the upper bits of its payload.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace hpu {

class BFloat16 {
 public:
  BFloat16() = default;
  // Converts through f32, as PyTorch and the device do.
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
