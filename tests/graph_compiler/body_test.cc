#include <cmath>
#include <cstring>
#include <limits>

#include "tests/graph_compiler/kernel_runner.h"

namespace hpu::graph_compiler {
namespace {

class BodyTest : public testing::TestWithParam<IsaLevel> {};
INSTANTIATE_TEST_SUITE_P(Isa, BodyTest, testing::ValuesIn(RunnableIsaLevels()));

template <typename T>
std::vector<T> Iota(size_t n) {
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<T>(i);
  return values;
}

TEST_P(BodyTest, TailsTouchNothingBeyondTheEnd) {
  for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16, MemoryType::kI8}) {
    Body body;
    const uint32_t x = AddLoad(body, 0, type);
    AddStore(body, AddOp(body, Opcode::kAdd, ComputeType(type), {x, x}), 1, type);
    const BodyRunner runner(GetParam(), body, 2);
    const size_t size = static_cast<size_t>(MemoryTypeSize(type));
    for (int64_t n = 0; n <= 35; ++n) {
      std::vector<uint8_t> in(64 * size, 0);
      std::vector<uint8_t> out(64 * size, 0xab);
      runner.Run({in.data(), out.data(), &n});
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out[i], i < static_cast<size_t>(n) * size ? 0 : 0xab)
            << "n=" << n << " byte " << i;
      }
    }
  }
}

TEST_P(BodyTest, StridedLoadsAndStores) {
  Body body;
  const uint32_t x = AddLoad(body, 0, MemoryType::kF32, 3, 1);
  AddStore(body, x, 1, MemoryType::kBF16, 2);
  const BodyRunner runner(GetParam(), body, 2);
  std::vector<float> in = Iota<float>(100);
  std::vector<uint16_t> out(100, 0xffff);
  int64_t n = 21;
  runner.Run({in.data(), out.data(), &n});
  for (size_t i = 0; i < 21; ++i) {
    const float wanted = static_cast<float>(3 * i + 1);
    uint32_t bits;
    std::memcpy(&bits, &wanted, 4);
    EXPECT_EQ(out[2 * i], bits >> 16);
    EXPECT_EQ(out[2 * i + 1], 0xffff);
  }
}

TEST_P(BodyTest, GatherClampsIndices) {
  Body body;
  const uint32_t index = AddLoad(body, 0, MemoryType::kI32);
  BodyOp load{Opcode::kLoad, ScalarType::kF32, {index}, 0, 0, {}};
  load.access = Access{1, MemoryType::kF32, {0}, 0, index, 2, 5};
  body.ops.push_back(load);
  AddStore(body, 1, 2, MemoryType::kF32);
  const BodyRunner runner(GetParam(), body, 3);
  std::vector<int32_t> indices = {0, 4, 2, -7, 99, 1, 3, 0, 4, 4, 2};
  std::vector<float> table = Iota<float>(10);
  std::vector<float> out(indices.size());
  int64_t n = static_cast<int64_t>(indices.size());
  runner.Run({indices.data(), table.data(), out.data(), &n});
  EXPECT_EQ(out, (std::vector<float>{0, 8, 4, 0, 8, 2, 6, 0, 8, 8, 4}));
}

TEST_P(BodyTest, ScatterStores) {
  Body body;
  const uint32_t index = AddLoad(body, 0, MemoryType::kI64);
  const uint32_t x = AddLoad(body, 1, MemoryType::kI32);
  body.stores.push_back(Store{x, Access{2, MemoryType::kI32, {0}, 0, index, 1, 16}});
  const BodyRunner runner(GetParam(), body, 3);
  std::vector<int64_t> indices = {3, 1, 15, 0, 7, 9, 10, 2, 4, 12, 13};
  std::vector<int32_t> in = Iota<int32_t>(11);
  std::vector<int32_t> out(16, -1);
  int64_t n = 11;
  runner.Run({indices.data(), in.data(), out.data(), &n});
  EXPECT_EQ(out, (std::vector<int32_t>{3, 1, 7, 0, 8, -1, -1, 4, -1, 5, 6, -1, 9, 10, -1, 2}));
}

float HalfToFloat(uint16_t half) {
  _Float16 value;
  std::memcpy(&value, &half, 2);
  return static_cast<float>(value);
}

TEST_P(BodyTest, HalfWidensExactlyAndRoundsToNearestEven) {
  Body widen;
  AddStore(widen, AddLoad(widen, 0, MemoryType::kF16), 1, MemoryType::kF32);
  const BodyRunner widen_runner(GetParam(), widen, 2);
  std::vector<uint16_t> halves = Iota<uint16_t>(65536);
  std::vector<float> floats(65536);
  int64_t n = 65536;
  widen_runner.Run({halves.data(), floats.data(), &n});
  for (size_t i = 0; i < 65536; ++i) {
    const float wanted = HalfToFloat(static_cast<uint16_t>(i));
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(floats[i]));
    } else {
      ASSERT_EQ(std::memcmp(&floats[i], &wanted, 4), 0) << i;
    }
  }
  Body narrow;
  AddStore(narrow, AddLoad(narrow, 0, MemoryType::kF32), 1, MemoryType::kF16);
  const BodyRunner narrow_runner(GetParam(), narrow, 2);
  std::vector<float> in;
  for (uint32_t i = 0; i < 65536; ++i) {
    for (const uint32_t low : {0x0000u, 0x1000u, 0x0fffu, 0x1001u}) {
      const uint32_t bits = i << 16 | low;
      float value;
      std::memcpy(&value, &bits, 4);
      in.push_back(value);
    }
  }
  std::vector<uint16_t> out(in.size());
  n = static_cast<int64_t>(in.size());
  narrow_runner.Run({in.data(), out.data(), &n});
  for (size_t i = 0; i < in.size(); ++i) {
    const float wanted = static_cast<float>(static_cast<_Float16>(in[i]));
    const float got = HalfToFloat(out[i]);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(got)) << in[i];
    } else {
      ASSERT_EQ(std::memcmp(&got, &wanted, 4), 0) << in[i] << " " << got << " " << wanted;
    }
  }
}

TEST_P(BodyTest, Bf16RoundsToNearestEvenAndKeepsNan) {
  Body body;
  AddStore(body, AddLoad(body, 0, MemoryType::kF32), 1, MemoryType::kBF16);
  const BodyRunner runner(GetParam(), body, 2);
  const std::vector<uint32_t> bits = {0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff,
                                      0x7f800001, 0xffffffff, 0x00008001, 0x80000000};
  std::vector<uint16_t> out(bits.size());
  int64_t n = static_cast<int64_t>(bits.size());
  runner.Run({const_cast<uint32_t*>(bits.data()), out.data(), &n});
  EXPECT_EQ(out, (std::vector<uint16_t>{0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80, 0x7fc0, 0xffff,
                                        0x0001, 0x8000}));
}

TEST_P(BodyTest, Fp8RoundTripsAndOverflows) {
  for (const MemoryType type : {MemoryType::kF8E4M3, MemoryType::kF8E5M2}) {
    Body round_trip;
    AddStore(round_trip, AddLoad(round_trip, 0, type), 1, type);
    const BodyRunner runner(GetParam(), round_trip, 2);
    std::vector<uint8_t> in = Iota<uint8_t>(256);
    std::vector<uint8_t> out(256);
    int64_t n = 256;
    runner.Run({in.data(), out.data(), &n});
    for (size_t i = 0; i < 256; ++i) {
      const bool nan = type == MemoryType::kF8E4M3 ? (i & 0x7f) == 0x7f : (i & 0x7f) > 0x7c;
      EXPECT_EQ(out[i], nan ? (i & 0x80) | 0x7f : i);
    }
  }
  Body body;
  AddStore(body, AddLoad(body, 0, MemoryType::kF32), 1, MemoryType::kF8E4M3);
  const BodyRunner runner(GetParam(), body, 2);
  std::vector<float> in = {448.0f, 463.0f, 464.0f, 465.0f, -1e9f, 0.00390625f, 0.0009765625f};
  std::vector<uint8_t> out(in.size());
  int64_t n = static_cast<int64_t>(in.size());
  runner.Run({in.data(), out.data(), &n});
  EXPECT_EQ(out, (std::vector<uint8_t>{0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0x02, 0x00}));
}

TEST_P(BodyTest, IntegerDivisionNeverTraps) {
  Body body;
  const uint32_t x = AddLoad(body, 0, MemoryType::kI32);
  const uint32_t y = AddLoad(body, 1, MemoryType::kI32);
  uint32_t operand = 2;
  for (const Opcode op : {Opcode::kDiv, Opcode::kRem, Opcode::kFloorDiv, Opcode::kFloorMod}) {
    AddStore(body, AddOp(body, op, ScalarType::kI32, {x, y}), operand++, MemoryType::kI32);
  }
  const BodyRunner runner(GetParam(), body, 6);
  const int32_t smallest = std::numeric_limits<int32_t>::min();
  std::vector<int32_t> a = {7, -7, 7, -7, 5, smallest, 0, 6, -6};
  std::vector<int32_t> b = {2, 2, -2, -2, 0, -1, 3, 3, 3};
  std::vector<std::vector<int32_t>> out(4, std::vector<int32_t>(a.size()));
  int64_t n = static_cast<int64_t>(a.size());
  runner.Run({a.data(), b.data(), out[0].data(), out[1].data(), out[2].data(), out[3].data(), &n});
  EXPECT_EQ(out[0], (std::vector<int32_t>{3, -3, -3, 3, 0, smallest, 0, 2, -2}));
  EXPECT_EQ(out[1], (std::vector<int32_t>{1, -1, 1, -1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(out[2], (std::vector<int32_t>{3, -4, -4, 3, 0, smallest, 0, 2, -2}));
  EXPECT_EQ(out[3], (std::vector<int32_t>{1, 1, -1, -1, 0, 0, 0, 0, 0}));
}

// The results are those of PyTorch's div_floor and remainder on the CPU.
TEST_P(BodyTest, FloatDivisionByInfinityHasPythonsSigns) {
  Body body;
  const uint32_t x = AddLoad(body, 0, MemoryType::kF32);
  const uint32_t y = AddLoad(body, 1, MemoryType::kF32);
  uint32_t operand = 2;
  for (const Opcode op : {Opcode::kRem, Opcode::kFloorDiv, Opcode::kFloorMod}) {
    AddStore(body, AddOp(body, op, ScalarType::kF32, {x, y}), operand++, MemoryType::kF32);
  }
  const BodyRunner runner(GetParam(), body, 5);
  const float inf = INFINITY;
  std::vector<float> a = {88, -88, 88, -88, 0, 0, 7, -7};
  std::vector<float> b = {-inf, inf, inf, -inf, inf, -inf, -2, 2};
  std::vector<std::vector<float>> out(3, std::vector<float>(a.size()));
  int64_t n = static_cast<int64_t>(a.size());
  runner.Run({a.data(), b.data(), out[0].data(), out[1].data(), out[2].data(), &n});
  EXPECT_EQ(out[0], (std::vector<float>{88, -88, 88, -88, 0, 0, 1, -1}));
  EXPECT_EQ(out[1], (std::vector<float>{-1, -1, 0, 0, 0, 0, -4, -4}));
  EXPECT_EQ(out[2], (std::vector<float>{-inf, inf, 88, -88, 0, 0, -1, 1}));
  std::vector<bool> negative;
  for (const float quotient : out[1]) negative.push_back(std::signbit(quotient));
  EXPECT_EQ(negative, (std::vector<bool>{true, true, false, false, false, true, true, true}));
}

TEST_P(BodyTest, FloatToIntSaturatesAndNanIsZero) {
  Body body;
  const uint32_t x = AddLoad(body, 0, MemoryType::kF32);
  AddStore(body, AddOp(body, Opcode::kCast, ScalarType::kI32, {x}), 1, MemoryType::kI32);
  AddStore(body, AddOp(body, Opcode::kCast, ScalarType::kI64, {x}), 2, MemoryType::kI64);
  AddStore(body, x, 3, MemoryType::kU8);
  const BodyRunner runner(GetParam(), body, 4);
  std::vector<float> in = {1.9f, -1.9f, 3e9f, -3e9f, NAN, 300.0f, -1.0f, 0.0f, 255.0f};
  std::vector<int32_t> i32(in.size());
  std::vector<int64_t> i64(in.size());
  std::vector<uint8_t> u8(in.size());
  int64_t n = static_cast<int64_t>(in.size());
  runner.Run({in.data(), i32.data(), i64.data(), u8.data(), &n});
  EXPECT_EQ(i32, (std::vector<int32_t>{1, -1, 2147483647, -2147483647 - 1, 0, 300, -1, 0, 255}));
  EXPECT_EQ(i64, (std::vector<int64_t>{1, -1, 3000000000, -3000000000, 0, 300, -1, 0, 255}));
  EXPECT_EQ(u8, (std::vector<uint8_t>{1, 255, 255, 0, 0, 44, 255, 0, 255}));
}

TEST_P(BodyTest, MinAndMaxPropagateNan) {
  Body body;
  const uint32_t x = AddLoad(body, 0, MemoryType::kF32);
  const uint32_t y = AddLoad(body, 1, MemoryType::kF32);
  AddStore(body, AddOp(body, Opcode::kMax, ScalarType::kF32, {x, y}), 2, MemoryType::kF32);
  const uint32_t zero = AddOp(body, Opcode::kConstF32, ScalarType::kF32, {});
  AddStore(body, AddOp(body, Opcode::kMax, ScalarType::kF32, {x, zero}), 3, MemoryType::kF32);
  const BodyRunner runner(GetParam(), body, 4);
  std::vector<float> a = {1, NAN, 2, -1};
  std::vector<float> b = {2, 1, NAN, -3};
  std::vector<float> max(4);
  std::vector<float> relu(4);
  int64_t n = 4;
  runner.Run({a.data(), b.data(), max.data(), relu.data(), &n});
  EXPECT_EQ(max[0], 2);
  EXPECT_TRUE(std::isnan(max[1]));
  EXPECT_TRUE(std::isnan(max[2]));
  EXPECT_EQ(max[3], -1);
  EXPECT_EQ(relu[0], 1);
  EXPECT_TRUE(std::isnan(relu[1]));
  EXPECT_EQ(relu[3], 0);
}

}  // namespace
}  // namespace hpu::graph_compiler
