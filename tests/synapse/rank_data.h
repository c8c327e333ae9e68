// Data that ranks exchange in tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/synapse/ranks.h"

namespace hpu {

inline const std::string kFine;

// Elements of rank `rank` that make every sum of eight ranks exact.
template <typename T>
std::vector<T> Values(int rank, uint64_t count) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) + 1);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(static_cast<int64_t>(random() % 13) - 6);
  return values;
}

template <typename T>
uint64_t Put(Rank& rank, const std::vector<T>& values) {
  const uint64_t address = rank.Allocate(std::max<uint64_t>(values.size() * sizeof(T), 1));
  if (!values.empty()) rank.Upload(values.data(), values.size() * sizeof(T), address);
  return address;
}

template <typename T>
std::vector<T> Get(Rank& rank, uint64_t address, uint64_t count) {
  std::vector<T> values(count);
  if (count == 0) return values;
  const std::vector<uint8_t> bytes = rank.Download(address, count * sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

template <typename T>
std::vector<T> SumOfRanks(int size, uint64_t count) {
  std::vector<T> sum(count);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<T> values = Values<T>(rank, count);
    for (uint64_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + values[i]);
  }
  return sum;
}

inline void ExpectAllFine(const std::vector<std::string>& results) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank], kFine) << "rank " << rank;
  }
}

}  // namespace hpu
