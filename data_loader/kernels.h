// The inner loops of resizing, once for each ISA level (x86-64-v2 and v3). They calculate with
// integers, so every level gives the same bytes.
//
// A weight is a fixed-point number with kWeightBits fraction bits. It does not fit the
// multiplication of 16-bit values by which vectors add two products at once, and is therefore split
// into high * 2^kLowBits + low; the sums of the two halves are joined at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hpu::data_loader {

constexpr int kWeightBits = 22;
constexpr int kLowBits = 11;

// The weights of two taps, the first of them in the lower 16 bits of each half.
struct WeightPair {
  uint32_t high = 0;
  uint32_t low = 0;
};

struct Bytes {
  const uint8_t* first;
  size_t stride;  // from one row to the next
};

struct Kernels {
  const char* name;
  // Writes `count` pixels in each of `rows` rows. Pixel i is the weighted sum of 2 * pairs pixels
  // of the row, beginning with pixel first[i], by the weights at weights[i * pairs].
  void (*across)(Bytes from, int rows, const int32_t* first, const WeightPair* weights, int pairs,
                 int count, uint8_t* to, size_t stride);
  // Writes one row of `bytes` bytes, rounded up to a multiple of 32, which must be readable and
  // writable. Each byte is the weighted sum of the bytes of `taps` rows.
  void (*down)(Bytes from, const WeightPair* weights, int taps, size_t bytes, uint8_t* to);
};

// Those that this processor can run, the slowest first.
std::span<const Kernels> AvailableKernels();

}  // namespace hpu::data_loader
