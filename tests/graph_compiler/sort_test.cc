// Compares sorting with std::stable_sort, at every ISA level.
#include <limits>
#include <numeric>

#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class SortTest : public LevelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, SortTest, testing::ValuesIn(GraphIsaLevels()));

TEST_P(SortTest, TopKIsSortedAndStable) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({7, 2});
  const uint32_t values = b.Persistent({3, 2});
  const uint32_t indices = b.Persistent({3, 2}, syn_type_int32);
  const uint32_t low = b.Persistent({3, 2});
  const uint32_t low_indices = b.Persistent({3, 2}, syn_type_int64);
  b.Node("topk", {x}, {values, indices}, synBeamParams{3, 0, 0, 0, 0});
  b.Node("topk", {x}, {low, low_indices}, synBeamParams{3, 0, 1, 0, 0});
  GraphRun run(b.graph);
  run.Set<float>(x, {1, 3, -2, 3, 0, 2, 1, -1, NAN, -5, 7, -1, -0.0f, 0});
  RunOrFail(run);
  EXPECT_EQ(run.Get<int32_t>(indices), (std::vector<int32_t>{1, 3, 5, 1, 3, 5}));
  EXPECT_EQ(run.Get<int64_t>(low_indices), (std::vector<int64_t>{2, 4, 0, 2, 0, 4}));
  EXPECT_EQ(run.Get<float>(low)[0], -2);
  EXPECT_EQ(run.Get<float>(values)[2], 2);
}

// A few of many elements are selected without sorting all.
TEST_P(SortTest, TopKOfLongRows) {
  constexpr uint64_t kRow = 300, kRows = 3;
  for (const uint64_t k : {1u, 2u, 10u, 64u, 74u, 80u}) {
    for (const bool largest : {true, false}) {
      GraphBuilder b;
      const uint32_t x = b.Persistent({kRow, kRows});
      const uint32_t values = b.Persistent({k, kRows});
      const uint32_t indices = b.Persistent({k, kRows}, syn_type_int32);
      b.Node(
          "topk", {x}, {values, indices},
          synBeamParams{static_cast<unsigned>(k), 0, static_cast<uint8_t>(largest ? 0 : 1), 0, 0});
      GraphRun run(b.graph);
      std::vector<float> xs(kRow * kRows);
      for (size_t i = 0; i < kRow; ++i) {
        xs[i] = static_cast<float>(i * 7919 % 41);         // ties
        xs[kRow + i] = static_cast<float>(i);              // every element is larger than the last
        xs[2 * kRow + i] = -static_cast<float>(i) * 0.5f;  // and smaller
      }
      run.Set(x, xs);
      RunOrFail(run);
      const auto got = run.Get<int32_t>(indices);
      const auto got_values = run.Get<float>(values);
      for (size_t row = 0; row < kRows; ++row) {
        const float* const row_values = xs.data() + row * kRow;
        std::vector<int32_t> order(kRow);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
          return largest ? row_values[i] > row_values[j] : row_values[i] < row_values[j];
        });
        for (size_t i = 0; i < k; ++i) {
          ASSERT_EQ(got[row * k + i], order[i]) << "k " << k << " row " << row << " at " << i;
          ASSERT_EQ(got_values[row * k + i], row_values[order[i]]);
        }
      }
    }
  }
}

// Elements of a row: few distinct ones at first, then all bits, and what is special for the type.
template <typename T>
std::vector<T> ElementsToSort(size_t count) {
  std::vector<T> xs(count);
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if constexpr (std::is_floating_point_v<T>) {
      const T special[] = {
          T(NAN), -std::numeric_limits<T>::infinity(), T(-0.0),
          T(0),   std::numeric_limits<T>::infinity(),  std::numeric_limits<T>::lowest()};
      xs[i] = state % 11 < 6 ? special[state % 11]
                             : static_cast<T>(static_cast<double>(state >> 40) - 8e6);
    } else {
      xs[i] = i < count / 2 ? static_cast<T>(state % 7) : static_cast<T>(state);
    }
  }
  return xs;
}

// Short rows are merged, and long ones sorted digit by digit.
template <typename T>
void SortsAllLengths(IsaLevel isa, synDataType type) {
  for (const uint64_t count : {1u, 2u, 3u, 64u, 255u, 256u, 257u, 5000u}) {
    for (const bool largest : {true, false}) {
      constexpr uint64_t kRows = 2;
      GraphBuilder b;
      const uint32_t x = b.Persistent({count, kRows}, type);
      const uint32_t values = b.Persistent({count, kRows}, type);
      const uint32_t indices = b.Persistent({count, kRows}, syn_type_int32);
      b.Node("topk", {x}, {values, indices},
             synBeamParams{static_cast<unsigned>(count), 0, static_cast<uint8_t>(largest ? 0 : 1),
                           0, 0});
      GraphRun run(b.graph);
      const std::vector<T> xs = ElementsToSort<T>(count * kRows);
      run.Set(x, xs);
      ASSERT_TRUE(run.Run(isa).ok());
      const auto got = run.Get<int32_t>(indices);
      const auto got_values = run.Get<T>(values);
      const auto less = [](T p, T q) { return p < q || (p == p && q != q); };
      for (size_t row = 0; row < kRows; ++row) {
        const T* const elements = xs.data() + row * count;
        std::vector<int32_t> order(count);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t i, int32_t j) {
          return largest ? less(elements[j], elements[i]) : less(elements[i], elements[j]);
        });
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(got[row * count + i], order[i]) << count << " elements, place " << i;
          ASSERT_EQ(std::memcmp(&got_values[row * count + i], &elements[order[i]], sizeof(T)), 0);
        }
      }
    }
  }
}

TEST_P(SortTest, RowsOfAnyLength) {
  SortsAllLengths<float>(GetParam(), syn_type_float);
  SortsAllLengths<int32_t>(GetParam(), syn_type_int32);
  SortsAllLengths<int64_t>(GetParam(), syn_type_int64);
  SortsAllLengths<int8_t>(GetParam(), syn_type_int8);
  SortsAllLengths<uint8_t>(GetParam(), syn_type_uint8);
}

}  // namespace
}  // namespace hpu::graph_compiler
