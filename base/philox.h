// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11)
// computes random numbers as a function of a key and a counter, so that any element of any draw can
// be calculated alone, by any thread and repeatedly. It is the generator of PyTorch's CUDA device.
//
// A stream is the numbers of one seed: block b holds the four numbers of counter b. A draw of n
// numbers takes the next ceil(n / 4) blocks; its element i is number i % 4 of block i / 4.
// graph_compiler/codegen/philox.cc emits the same computation in a recipe's code.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace hpu {

using PhiloxBlock = std::array<uint32_t, 4>;

inline constexpr uint32_t kPhiloxMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxKeySteps[2] = {0x9E3779B9, 0xBB67AE85};
inline constexpr int kPhiloxRounds = 10;

constexpr PhiloxBlock Philox(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t first = uint64_t{kPhiloxMultipliers[0]} * counter[0];
    const uint64_t second = uint64_t{kPhiloxMultipliers[1]} * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key = {key[0] + kPhiloxKeySteps[0], key[1] + kPhiloxKeySteps[1]};
  }
  return counter;
}

constexpr PhiloxBlock PhiloxBlockOf(uint64_t seed, uint64_t block) {
  return Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Returns the number of blocks that a draw of this many numbers takes.
constexpr uint64_t PhiloxBlocks(uint64_t numbers) { return numbers / 4 + (numbers % 4 != 0); }

// Returns a number in [0, 1) with 24 bits, which are all the evenly spaced values that f32 has in
// that interval.
constexpr float UniformFromBits(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

// The integers [low, high) that draws of a type may have: those that the type holds exactly. Types
// without draws in recipes have none.
struct IntegerRange {
  int64_t low = 0;
  int64_t high = 0;
};
constexpr IntegerRange DrawnIntegers(DType dtype) {
  const auto up_to = [](int bits) {
    return IntegerRange{-(int64_t{1} << bits), int64_t{1} << bits};
  };
  switch (dtype) {
    case DType::kBool:
      return {0, 2};
    case DType::kU8:
      return {0, 256};
    case DType::kI8:
      return up_to(7);
    case DType::kI16:
      return up_to(15);
    case DType::kI32:
      return up_to(31);
    case DType::kI64:
      return up_to(62);
    case DType::kBF16:
      return up_to(8);
    case DType::kF16:
      return up_to(11);
    case DType::kF32:
      return up_to(24);
    default:
      return {};
  }
}

// Returns whether integers in [low, high) are drawn as floor(u * (high - low)) + low in f32: f32
// holds them all exactly, and the 2^24 values of u hit each of them in proportions that differ by
// at most 1/16.
constexpr bool DrawsExactIntegers(int64_t low, int64_t high) {
  constexpr int64_t kLargest = int64_t{1} << 24;
  return -kLargest <= low && low < high && high <= kLargest && high - low <= int64_t{1} << 20;
}

// Returns whether integers in [low, high) of a larger range are drawn as the rest of 48 bits: the
// range leaves a bias of at most 2^-16, and sums with `low` fit into f64, in which graphs hold
// numbers.
constexpr bool DrawsWideIntegers(int64_t low, int64_t high) {
  constexpr int64_t kLargest = int64_t{1} << 52;
  return -kLargest <= low && low < high && high <= kLargest && high - low <= int64_t{1} << 32;
}

// Returns whether draws of a type may have all integers of [low, high), in one of the two ways.
constexpr bool DrawsIntegers(DType dtype, int64_t low, int64_t high) {
  const IntegerRange held = DrawnIntegers(dtype);
  return held.low <= low && high <= held.high &&
         (DrawsExactIntegers(low, high) || DrawsWideIntegers(low, high));
}

}  // namespace hpu
