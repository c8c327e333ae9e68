// Compares with values that were computed by hand. tests/python/ops/test_compiler_ops.py checks op
// by op that results agree with PyTorch.
#include "compiler_server/ir/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler_server/ir/text.h"

namespace hpu::ir {
namespace {

using testing::ElementsAre;

RunResult Evaluate(const std::string& text, const std::vector<HostTensor>& inputs) {
  auto graph = Parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto result = Interpret(*graph, inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

HostTensor Numbers(Dims sizes, std::vector<double> data, DType dtype = DType::kF32) {
  return {dtype, std::move(sizes), std::move(data)};
}

TEST(Interpreter, BroadcastsAndRounds) {
  const RunResult result = Evaluate(
      R"(graph @g(%x: bf16[2,1], %y: bf16[2]) {
    %0 = add %x, %y : bf16[2,2]
    return %0 })",
      {Numbers({2, 1}, {1, 256}, DType::kBF16), Numbers({2}, {0.00390625, 1}, DType::kBF16)});
  // With 8 significant bits, 1 + 2^-8 and 256 + 1 are ties that go to the even neighbour.
  EXPECT_THAT(result.outputs[0].data, ElementsAre(1, 2, 256, 256));
}

TEST(Interpreter, IntegerProductsWrapAroundBeyondWhatDoublesHold) {
  const RunResult result = Evaluate(R"(graph @g(%x: i32[2], %y: i64[1]) {
    %0 = mul %x, %x : i32[2]
    %1 = mul %y, %y : i64[1]
    return %0, %1 })",
                                    {Numbers({2}, {1264544299, -1264544299}, DType::kI32),
                                     Numbers({1}, {4294967297}, DType::kI64)});
  // 1264544299 is 3^31 in 32 bits, and 4294967297 is 2^32 + 1.
  EXPECT_THAT(result.outputs[0].data, ElementsAre(703701817, 703701817));
  EXPECT_THAT(result.outputs[1].data, ElementsAre(8589934593));
}

TEST(Interpreter, DivisionByInfinityHasPythonsSigns) {
  constexpr double kInf = INFINITY;
  const RunResult result = Evaluate(
      R"(graph @g(%x: f32[6], %y: f32[6]) {
    %0 = floor_div %x, %y : f32[6]
    %1 = remainder %x, %y : f32[6]
    return %0, %1 })",
      {Numbers({6}, {88, -88, 88, -88, 7, -7}), Numbers({6}, {-kInf, kInf, kInf, -kInf, -2, 2})});
  EXPECT_THAT(result.outputs[0].data, ElementsAre(-1, -1, 0, 0, -4, -4));
  EXPECT_THAT(result.outputs[1].data, ElementsAre(-kInf, kInf, 88, -88, -1, 1));
}

TEST(Interpreter, OutputsAreViewsOfStorages) {
  const RunResult result = Evaluate(R"(graph @g(%x: f32[2,3]) {
    %0 = neg %x : f32[2,3]
    return %0 in f32[2,3]{1,2} as f32[6] })",
                                    {Numbers({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(result.outputs[0].data, ElementsAre(-1, -4, -2, -5, -3, -6));
}

TEST(Interpreter, MatmulTransposesAndBroadcastsBatches) {
  const RunResult result =
      Evaluate(R"(graph @g(%a: f32[1,2,2], %b: f32[2,1,2]) {
    %0 = matmul %a, %b {transpose_a = true, transpose_b = true} : f32[2,2,1]
    return %0 })",
               {Numbers({1, 2, 2}, {1, 2, 3, 4}), Numbers({2, 1, 2}, {1, 0, 0, 1})});
  EXPECT_THAT(result.outputs[0].data, ElementsAre(1, 2, 3, 4));
}

TEST(Interpreter, QuantizedWeightsOfEightAndFourBits) {
  const RunResult result = Evaluate(
      R"(graph @g(%x: f32[1,2], %w: i8[2,2], %b: u8[1,2,1], %s: f32[2,2], %z: f32[2,2]) {
    %0 = matmul_quantized %x, %w : f32[1,2]
    %1 = matmul_quantized %x, %w, %s, %z : f32[1,2]
    %2 = matmul_quantized %x, %b, %s : f32[1,2]
    return %0, %1, %2 })",
      {Numbers({1, 2}, {1, 10}), Numbers({2, 2}, {1, -2, 3, 4}, DType::kI8),
       Numbers({1, 2, 1}, {0x9a, 0xf0}, DType::kU8), Numbers({2, 2}, {2, 3, 5, 7}),
       Numbers({2, 2}, {1, 0, 0, -1})});
  EXPECT_THAT(result.outputs[0].data, ElementsAre(-19, 43));
  // Column 0: 1 * (1 * 2 + 1) + 10 * (-2 * 5); column 1: 3 * 3 + 10 * (4 * 7 - 1).
  EXPECT_THAT(result.outputs[1].data, ElementsAre(-97, 279));
  // Column 0 holds 2 and -8, column 1 holds 1 and 7.
  EXPECT_THAT(result.outputs[2].data, ElementsAre(-396, 493));
}

TEST(Interpreter, SdpaGroupsHeadsAndHidesTheFuture) {
  const RunResult result =
      Evaluate(R"(graph @g(%q: f32[1,2,2,1], %k: f32[1,1,2,1], %v: f32[1,1,2,1]) {
    %0 = sdpa %q, %k, %v {causal = true, scale = 1.0} : f32[1,2,2,1]
    return %0 })",
               {Numbers({1, 2, 2, 1}, {0, 0, 0, 0}), Numbers({1, 1, 2, 1}, {1, 1}),
                Numbers({1, 1, 2, 1}, {2, 4})});
  EXPECT_THAT(result.outputs[0].data, ElementsAre(2, 3, 2, 3));
}

// One query has weights 1/4 and 3/4: the logarithm is log(1 + 3) and the slopes are p * (g v - g
// out).
TEST(Interpreter, SdpaAndItsGradient) {
  const RunResult result =
      Evaluate(R"(graph @g(%q: f32[1,1,1,1], %k: f32[1,1,2,1], %v: f32[1,1,2,1], %g: f32[1,1,1,1]) {
    %0, %1 = sdpa_logsumexp %q, %k, %v {scale = 0.5} : f32[1,1,1,1], f32[1,1,1,1]
    %2, %3, %4 = sdpa_backward %g, %q, %k, %v, %0, %1 {scale = 0.5} : f32[1,1,1,1], f32[1,1,2,1], f32[1,1,2,1]
    return %0, %1, %2, %3, %4 })",
               {Numbers({1, 1, 1, 1}, {2}), Numbers({1, 1, 2, 1}, {0, std::log(3.0)}),
                Numbers({1, 1, 2, 1}, {4, 8}), Numbers({1, 1, 1, 1}, {2})});
  const auto near = [](double x) { return testing::DoubleNear(x, 1e-5); };
  EXPECT_THAT(result.outputs[0].data, ElementsAre(near(7)));
  EXPECT_THAT(result.outputs[1].data, ElementsAre(near(std::log(4.0))));
  EXPECT_THAT(result.outputs[2].data, ElementsAre(near(0.75 * std::log(3.0))));
  EXPECT_THAT(result.outputs[3].data, ElementsAre(near(-1.5), near(1.5)));
  EXPECT_THAT(result.outputs[4].data, ElementsAre(near(0.5), near(1.5)));
}

TEST(Interpreter, SdpaOfAHiddenRowHasNoGradient) {
  const RunResult result =
      Evaluate(R"(graph @g(%q: f32[1,1,1,1], %k: f32[1,1,2,1], %m: f32[1,1,1,2]) {
    %0, %1 = sdpa_logsumexp %q, %k, %k, %m {scale = 1.0} : f32[1,1,1,1], f32[1,1,1,1]
    %2, %3, %4 = sdpa_backward %q, %q, %k, %k, %0, %1, %m {scale = 1.0} : f32[1,1,1,1], f32[1,1,2,1], f32[1,1,2,1]
    return %0, %1, %2, %3, %4 })",
               {Numbers({1, 1, 1, 1}, {2}), Numbers({1, 1, 2, 1}, {1, 3}),
                Numbers({1, 1, 1, 2}, {-INFINITY, -INFINITY})});
  EXPECT_THAT(result.outputs[1].data, ElementsAre(0));
  for (const size_t i : {0, 2}) EXPECT_THAT(result.outputs[i].data, ElementsAre(0));
  for (const size_t i : {3, 4}) EXPECT_THAT(result.outputs[i].data, ElementsAre(0, 0));
}

TEST(Interpreter, TopkKeepsTheOrderOfEqualElements) {
  const RunResult result = Evaluate(R"(graph @g(%x: f32[4]) {
    %0, %1 = topk %x {dim = 0, k = 3, largest = true} : f32[3], i64[3]
    return %0, %1 })",
                                    {Numbers({4}, {1, 5, 5, NAN})});
  EXPECT_TRUE(std::isnan(result.outputs[0].data[0]));
  EXPECT_THAT(result.outputs[1].data, ElementsAre(3, 1, 2));
}

TEST(Interpreter, RunningExtremaTakeTheLastOfEqualElementsAndNan) {
  const RunResult result = Evaluate(R"(graph @g(%x: f32[2,5]) {
    %0, %1 = cummax %x {dim = 1} : f32[2,5], i64[2,5]
    %2, %3 = cummin %x {dim = 1} : f32[2,5], i64[2,5]
    return %0, %1, %2, %3 })",
                                    {Numbers({2, 5}, {4, 2, 4, 2, 5, 1, NAN, 3, NAN, 0})});
  const auto& nan = testing::IsNan();
  EXPECT_THAT(result.outputs[0].data, ElementsAre(4, 4, 4, 4, 5, 1, nan, nan, nan, nan));
  EXPECT_THAT(result.outputs[1].data, ElementsAre(0, 0, 2, 2, 4, 0, 1, 1, 3, 3));
  EXPECT_THAT(result.outputs[2].data, ElementsAre(4, 2, 2, 2, 2, 1, nan, nan, nan, nan));
  EXPECT_THAT(result.outputs[3].data, ElementsAre(0, 1, 1, 3, 3, 0, 1, 1, 3, 3));
}

TEST(Interpreter, IndicesAreChecked) {
  auto graph = Parse(R"(graph @g(%x: f32[2], %i: i64[1]) {
    %0 = gather %x, %i {dim = 0} : f32[1]
    return %0 })");
  ASSERT_TRUE(graph.ok());
  const auto result = Interpret(*graph, {Numbers({2}, {1, 2}), Numbers({1}, {2}, DType::kI64)});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Interpreter, MutationsAreSeenThroughAliasesOnly) {
  const RunResult result = Evaluate(R"(graph @g(%x: f32[4], %y: f32[2]) {
    %0 = neg %x : f32[4]
    mutate %x as f32[2]{2} + 1 = %y
    return %0, alias %x as f32[3] + 1 })",
                                    {Numbers({4}, {1, 2, 3, 4}), Numbers({2}, {8, 9})});
  EXPECT_THAT(result.outputs[0].data, ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(result.outputs[1].data, ElementsAre(8, 3, 9));
  EXPECT_THAT(result.inputs[0].data, ElementsAre(1, 8, 3, 9));
}

TEST(HostTensor, BytesThereAndBack) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI8, DType::kU8,
                      DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    HostTensor tensor = MakeHostTensor(dtype, {5});
    const double values[] = {0, 1, 0.5, -2, 100};
    for (size_t i = 0; i < 5; ++i) tensor.data[i] = RoundTo(dtype, values[i]);
    const Bytes bytes = ToBytes(tensor);
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), 5 * DTypeSize(dtype));
    EXPECT_EQ(FromBytes(dtype, {5}, bytes).data, tensor.data) << DTypeName(dtype);
  }
}

TEST(HostTensor, HalfPrecisionEdges) {
  EXPECT_EQ(RoundTo(DType::kF16, 65519), 65504);
  EXPECT_EQ(RoundTo(DType::kF16, 65520), INFINITY);
  EXPECT_EQ(RoundTo(DType::kF16, std::ldexp(1.0, -25)), 0);  // a tie goes to even
  EXPECT_EQ(RoundTo(DType::kF16, std::ldexp(1.5, -25)), std::ldexp(1.0, -24));
  EXPECT_EQ(RoundTo(DType::kF16, 2049), 2048);
  EXPECT_EQ(RoundTo(DType::kI8, 130), -126);
}

}  // namespace
}  // namespace hpu::ir
