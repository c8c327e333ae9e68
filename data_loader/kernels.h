// The inner loops, once for each ISA level (x86-64-v2, v3, v4). They calculate with integers, so
// every level gives the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hpu::data_loader {

// Weights are integers with this many bits behind the point.
constexpr int kWeightBits = 22;

struct Kernels {
  const char* name;
  // Writes `count` pixels. Pixel i is the sum over t < taps of weight t of pixel i times the pixel
  // first[i] + t of `row`. `taps` is even; each weight stands in `weights` four times, for the four
  // channels.
  void (*horizontal)(const uint8_t* row, const int32_t* first, const int32_t* weights, int taps,
                     int count, uint8_t* out);
  // Writes `bytes` bytes, rounded up to a multiple of 16, which must be readable and writable. Byte
  // i is the sum over t < taps of weights[t] times byte i of the row at `rows` + t * stride.
  void (*vertical)(const uint8_t* rows, size_t stride, const int32_t* weights, int taps,
                   size_t bytes, uint8_t* out);
};

// Those that this processor can run, the slowest first.
std::span<const Kernels> AvailableKernels();

}  // namespace hpu::data_loader
