#include "program/program.h"

#include <gtest/gtest.h>

#include <random>

namespace hpu {
namespace {

TensorSpec Spec(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                int64_t offset = 0) {
  return {dtype, std::move(sizes), std::move(strides), offset};
}

// One of everything.
Program Sample() {
  Program program;
  program.name = "mlp";
  program.inputs.push_back(
      {ProgramInput::Kind::kTensor, Spec(DType::kF32, {2, 3}, {3, 1}), true, false});
  program.inputs.push_back({ProgramInput::Kind::kScalar, {}, false, false});
  program.buffer_bytes = {64};
  program.constants.push_back({Spec(DType::kI64, {1}, {1}), Bytes(8, 1)});
  program.tensors.push_back({Placement::kInput, 0, Spec(DType::kF32, {3, 2}, {1, 3})});
  program.tensors.push_back({Placement::kBuffer, 0, Spec(DType::kF32, {2, 3}, {3, 1}, 4)});
  program.tensors.push_back({Placement::kConstant, 0, Spec(DType::kI64, {1}, {1})});
  program.tensors.push_back({Placement::kEager, 0, Spec(DType::kF32, {2, 3}, {3, 1})});
  program.recipes.push_back({Sha256({}), 100, "mlp_0"});
  program.steps.push_back(LaunchStep{0, {{"x", 0}, {"y", 1}}});
  EagerStep eager;
  eager.op = "aten::lgamma";
  eager.args = {{TensorArgument{1}},
                {int64_t{3}},
                {2.5},
                {true},
                {std::string("mean")},
                {DTypeArgument{DType::kBF16}},
                {EnumArgument{"channels_last"}},
                {DeviceArgument{"hpu"}},
                {ArgumentList{{int64_t{1}}, {NoneArgument{}}}}};
  eager.kwargs = {{"out", {NoneArgument{}}}};
  eager.outputs = {3};
  eager.reason = "no recipe kernel";
  program.steps.push_back(eager);
  program.outputs = {{ProgramOutput::Kind::kTensor, 1, {}, 0, 0},
                     {ProgramOutput::Kind::kInput, 0, {}, 0, 0},
                     {ProgramOutput::Kind::kInputView, 0, Spec(DType::kF32, {3}, {1}, 3), 0, 0},
                     {ProgramOutput::Kind::kNone, 0, {}, 0, 0},
                     {ProgramOutput::Kind::kFloat, 0, {}, 0, 1.5}};
  program.node_count = 4;
  program.eager_node_count = 1;
  return program;
}

// Puts a fresh checksum behind changed bytes, so that the checks below it are reached.
Bytes Reseal(Bytes bytes) {
  bytes.resize(bytes.size() - sizeof(Digest));
  const Digest digest = Sha256(bytes);
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

TEST(Program, RoundTripsToEqualBytesAndText) {
  const Program program = Sample();
  const Bytes bytes = EncodeProgram(program);
  const auto decoded = DecodeProgram(bytes);
  ASSERT_TRUE(decoded.ok()) << ToText(decoded.status());
  EXPECT_EQ(EncodeProgram(*decoded), bytes);
  EXPECT_EQ(PrintProgram(*decoded), PrintProgram(program));
}

TEST(Program, PrintsReadableListing) {
  const std::string text = PrintProgram(Sample());
  EXPECT_NE(text.find("program mlp: 4 nodes, 1 eager\n"), std::string::npos);
  EXPECT_NE(text.find("  input 0: f32[2,3]{3,1} mutated\n"), std::string::npos);
  EXPECT_NE(text.find("  launch recipe 0 (x=%0, y=%1)\n"), std::string::npos);
  EXPECT_NE(
      text.find("  eager %3 = aten::lgamma(%1, 3, 2.5, True, \"mean\", bf16, channels_last, hpu, "
                "[1, None], out=None)  # no recipe kernel\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("  output 2: view of input 0 f32[3]{1}@3\n"), std::string::npos);
}

TEST(Program, EveryFlippedByteIsDataLoss) {
  const Bytes bytes = EncodeProgram(Sample());
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= 0x40;
    const auto code = DecodeProgram(damaged).status().code();
    const bool in_version = i >= 8 && i < 12;
    EXPECT_EQ(code, in_version ? absl::StatusCode::kUnimplemented : absl::StatusCode::kDataLoss)
        << "byte " << i;
  }
}

TEST(Program, TruncationIsDataLoss) {
  const Bytes bytes = EncodeProgram(Sample());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(DecodeProgram(std::span(bytes).first(length)).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

// Hostile bytes with a right checksum: any answer but a crash, and what is accepted is valid.
TEST(Program, ResealedMutationsNeverGiveAnInvalidProgram) {
  const Bytes bytes = EncodeProgram(Sample());
  std::mt19937 random(20261121);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes damaged = bytes;
    for (uint32_t edits = 1 + random() % 3; edits > 0; --edits) {
      damaged[12 + random() % (damaged.size() - 12 - sizeof(Digest))] =
          static_cast<uint8_t>(random());
    }
    const auto decoded = DecodeProgram(Reseal(damaged));
    if (!decoded.ok()) continue;
    ++accepted;
    ASSERT_TRUE(ValidateProgram(*decoded).ok());
  }
  EXPECT_GT(accepted, 0);
}

TEST(Program, OtherVersionIsUnimplemented) {
  Bytes bytes = EncodeProgram(Sample());
  bytes[8] = 99;
  EXPECT_EQ(ToText(DecodeProgram(Reseal(bytes)).status()),
            "UNIMPLEMENTED: program version 99, this build reads 1");
}

struct BadCase {
  const char* what;
  void (*spoil)(Program&);
};
class BadProgram : public testing::TestWithParam<BadCase> {};
TEST_P(BadProgram, IsRefused) {
  Program program = Sample();
  GetParam().spoil(program);
  EXPECT_EQ(ValidateProgram(program).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeProgram(EncodeProgram(program)).status().code(), absl::StatusCode::kDataLoss);
}
INSTANTIATE_TEST_SUITE_P(
    Cases, BadProgram,
    testing::Values(
        BadCase{"TensorPastInput", [](Program& p) { p.tensors[0].spec.sizes[0] = 4; }},
        BadCase{"TensorPastBuffer", [](Program& p) { p.tensors[1].spec.storage_offset = 11; }},
        BadCase{"TensorPastConstant", [](Program& p) { p.tensors[2].spec.sizes[0] = 2; }},
        BadCase{"SizeOverflow",
                [](Program& p) {
                  p.tensors[1].spec.strides[0] = INT64_MAX / 2 + 9;
                  p.tensors[1].spec.sizes[0] = 4;
                }},
        BadCase{"ByteOverflow",
                [](Program& p) { p.constants[0].spec.sizes[0] = int64_t{1} << 61; }},
        BadCase{"NegativeStride", [](Program& p) { p.tensors[1].spec.strides[0] = -3; }},
        BadCase{"RankMismatch", [](Program& p) { p.tensors[1].spec.strides.pop_back(); }},
        BadCase{"NoSuchInput", [](Program& p) { p.tensors[0].index = 7; }},
        BadCase{"ScalarAsTensor", [](Program& p) { p.tensors[0].index = 1; }},
        BadCase{"NoSuchRecipe", [](Program& p) { std::get<LaunchStep>(p.steps[0]).recipe = 1; }},
        BadCase{"BindingPastEnd",
                [](Program& p) { std::get<LaunchStep>(p.steps[0]).bindings[0].tensor = 9; }},
        BadCase{"EagerArgumentPastEnd",
                [](Program& p) { std::get<EagerStep>(p.steps[1]).args[0] = {TensorArgument{9}}; }},
        BadCase{"EagerOutputNotEager",
                [](Program& p) { std::get<EagerStep>(p.steps[1]).outputs[0] = 1; }},
        BadCase{"OutputPastEnd", [](Program& p) { p.outputs[0].index = 9; }},
        BadCase{"ViewOfNoInput", [](Program& p) { p.outputs[2].index = 9; }}),
    [](const testing::TestParamInfo<BadCase>& row) { return row.param.what; });

}  // namespace
}  // namespace hpu
