// Checks what ValidateProgram refuses, and with which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/program.h"
#include "tests/program/sample.h"

namespace hpu {
namespace {

struct BadCase {
  const char* what;
  void (*spoil)(Program&);
  const char* message;
};

template <typename T>
T& StepOf(Program& program, size_t index) {
  return std::get<T>(program.functions[0].steps[index]);
}

class BadProgram : public ::testing::TestWithParam<BadCase> {};
TEST_P(BadProgram, IsRefused) {
  Program program = testing::SampleProgram();
  ASSERT_TRUE(ValidateProgram(program).ok()) << ToText(ValidateProgram(program));
  GetParam().spoil(program);
  const absl::Status status = ValidateProgram(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(status.message()), GetParam().message);
  const absl::Status decoded = DecodeProgram(EncodeProgram(program)).status();
  EXPECT_EQ(decoded.code(), absl::StatusCode::kDataLoss) << ToText(decoded);
}

std::string CaseName(const ::testing::TestParamInfo<BadCase>& row) { return row.param.what; }

using Op = CollectiveStep::Op;
using ReduceOp = CollectiveStep::ReduceOp;
using InputKind = ProgramInput::Kind;

INSTANTIATE_TEST_SUITE_P(
    Tensors, BadProgram,
    ::testing::Values(
        BadCase{"PastInput", [](Program& p) { p.functions[0].tensors[0].spec.sizes[0] = 4; },
                "forward: tensor 0: reaches past input 0"},
        BadCase{"PastBuffer",
                [](Program& p) { p.functions[0].tensors[1].spec.storage_offset = 11; },
                "forward: tensor 1: reaches past buffer 0"},
        BadCase{"PastConstant", [](Program& p) { p.functions[0].tensors[2].spec.sizes[0] = 2; },
                "forward: tensor 2: reaches past constant 0"},
        BadCase{"PastNumber",
                [](Program& p) { p.functions[0].tensors[4].spec = {DType::kI64, {2}, {1}, 0}; },
                "forward: tensor 4: reaches past input 4"},
        BadCase{"SizeOverflow",
                [](Program& p) {
                  p.functions[0].tensors[1].spec.strides[0] = INT64_MAX / 2 + 9;
                  p.functions[0].tensors[1].spec.sizes[0] = 4;
                },
                "forward: tensor 1: elements out of range"},
        BadCase{"ByteOverflow", [](Program& p) { p.constants[0].spec.sizes[0] = int64_t{1} << 61; },
                "constant 0: elements out of range"},
        BadCase{"ConstantWithoutData", [](Program& p) { p.constants[0].data.pop_back(); },
                "constant 0: 7 bytes are too few"},
        BadCase{"NegativeStride",
                [](Program& p) { p.functions[0].tensors[1].spec.strides[0] = -3; },
                "forward: tensor 1: negative size or stride"},
        BadCase{"RankMismatch",
                [](Program& p) { p.functions[0].tensors[1].spec.strides.pop_back(); },
                "forward: tensor 1: 2 sizes but 1 strides"},
        BadCase{"NoSuchInput", [](Program& p) { p.functions[0].tensors[0].index = 5; },
                "forward: tensor 0: input 5 is not a tensor input"},
        BadCase{"NoSuchBuffer", [](Program& p) { p.functions[0].tensors[1].index = 2; },
                "forward: tensor 1: no buffer 2"},
        BadCase{"NoSuchConstant", [](Program& p) { p.functions[0].tensors[2].index = 1; },
                "forward: tensor 2: no constant 1"},
        BadCase{"ScalarAsTensor", [](Program& p) { p.functions[0].tensors[0].index = 1; },
                "forward: tensor 0: input 1 is not a tensor input"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadProgram,
    ::testing::Values(
        BadCase{"WrittenOnTheCpu", [](Program& p) { p.functions[0].inputs[0].on_cpu = true; },
                "forward: input 0: lies on the CPU and is written"},
        BadCase{"MutatedNumber", [](Program& p) { p.functions[0].inputs[3].mutated = true; },
                "forward: input 3: a number that is mutated or on the CPU"},
        BadCase{"SeedWithSizes",
                [](Program& p) { p.functions[0].inputs[3].spec = {DType::kI64, {2}, {1}, 0}; },
                "forward: input 3: random state of rank 1"},
        BadCase{"SeedThatIsNoInteger",
                [](Program& p) { p.functions[0].inputs[3].spec.dtype = DType::kF32; },
                "forward: input 3: random state that is not i64"},
        BadCase{"UnknownInputKind",
                [](Program& p) { p.functions[0].inputs[3].kind = static_cast<InputKind>(4); },
                "forward: input 3: unknown kind"},
        BadCase{"UnknownPlacement",
                [](Program& p) { p.functions[0].tensors[6].placement = static_cast<Placement>(4); },
                "forward: tensor 6: unknown placement"},
        BadCase{"UnknownOutputKind",
                [](Program& p) {
                  p.functions[0].outputs[3].kind = static_cast<ProgramOutput::Kind>(7);
                },
                "forward: output 3: unknown kind"},
        BadCase{"OutputPastEnd", [](Program& p) { p.functions[0].outputs[0].index = 9; },
                "forward: output 0: no tensor 9"},
        BadCase{"OutputOfNoInput", [](Program& p) { p.functions[0].outputs[1].index = 5; },
                "forward: output 1: no input 5"},
        BadCase{"ViewOfNoInput", [](Program& p) { p.functions[0].outputs[2].index = 9; },
                "forward: output 2: no tensor input 9"},
        BadCase{"ViewThatIsTheInput",
                [](Program& p) { p.functions[0].outputs[2].form = AliasForm::kSame; },
                "forward: output 2: a view of form \"same\""},
        BadCase{"ViewOfANumber", [](Program& p) { p.functions[0].outputs[2].index = 3; },
                "forward: output 2: no tensor input 3"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Steps, BadProgram,
    ::testing::Values(
        BadCase{"NoSuchRecipe", [](Program& p) { StepOf<LaunchStep>(p, 0).recipe = 2; },
                "forward: step 0: no recipe 2"},
        BadCase{"BindingPastEnd",
                [](Program& p) { StepOf<LaunchStep>(p, 0).bindings[0].tensor = 9; },
                "forward: step 0: no tensor 9"},
        BadCase{
            "LongTensorName",
            [](Program& p) { StepOf<LaunchStep>(p, 0).bindings[0].tensor_name.assign(257, 'x'); },
            "forward: step 0: name of 257 bytes, at most 256"},
        BadCase{"WritesAConstant",
                [](Program& p) { StepOf<LaunchStep>(p, 0).bindings[0] = {"x", 2, true}; },
                "forward: step 0: writes constant 0"},
        BadCase{"WritesAnUnmarkedInput",
                [](Program& p) {
                  p.functions[0].inputs[0].mutated = false;
                  StepOf<LaunchStep>(p, 0).bindings[0].written = true;
                },
                "forward: step 0: writes input 0, which is not marked as mutated"},
        BadCase{"EagerArgumentPastEnd",
                [](Program& p) { StepOf<EagerStep>(p, 2).args[0] = {TensorArgument{9}}; },
                "forward: step 2: argument names tensor 9 of 7"},
        BadCase{"EagerOutputNotEager", [](Program& p) { StepOf<EagerStep>(p, 2).outputs[0] = 1; },
                "forward: step 2: output 1 is not an eager tensor"},
        BadCase{"LongOpName", [](Program& p) { StepOf<EagerStep>(p, 2).op.assign(257, 'x'); },
                "forward: step 2: name of 257 bytes, at most 256"},
        BadCase{"LongReason", [](Program& p) { StepOf<EagerStep>(p, 2).reason.assign(1025, 'x'); },
                "forward: step 2: text of 1025 bytes, at most 1024"},
        BadCase{"UsedBeforeMade",
                [](Program& p) { StepOf<EagerStep>(p, 2).args[0] = {TensorArgument{6}}; },
                "forward: step 2: tensor 6 is used before it is made"},
        BadCase{"MadeTwice", [](Program& p) { StepOf<EagerStep>(p, 6).outputs[0] = 3; },
                "forward: step 6: tensor 3 is made a second time"},
        BadCase{"OutputThatNobodyMakes",
                [](Program& p) {
                  p.functions[0].steps.resize(2);
                  p.functions[0].steps.push_back(WaitStep{1});
                },
                "forward: output 7: no step makes tensor 3"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Collectives, BadProgram,
    ::testing::Values(
        BadCase{"NoGroup", [](Program& p) { StepOf<CollectiveStep>(p, 1).group.clear(); },
                "forward: step 1: all_gather without a group"},
        BadCase{"NoRanks", [](Program& p) { StepOf<CollectiveStep>(p, 1).group_size = 0; },
                "forward: step 1: all_gather for an unknown number of ranks"},
        BadCase{"WrongRanks", [](Program& p) { StepOf<CollectiveStep>(p, 1).group_size = 2; },
                "forward: step 1: 6 elements in and 24 out for 2 ranks"},
        BadCase{"Reduction",
                [](Program& p) { StepOf<CollectiveStep>(p, 1).reduce_op = ReduceOp::kMax; },
                "forward: step 1: all_gather with a reduction"},
        BadCase{"NoReduction",
                [](Program& p) { StepOf<CollectiveStep>(p, 7).reduce_op = ReduceOp::kNone; },
                "forward: step 7: all_reduce without a reduction"},
        BadCase{"RootOutsideTheGroup",
                [](Program& p) {
                  CollectiveStep& step = StepOf<CollectiveStep>(p, 4);
                  step = {.op = Op::kBroadcast,
                          .group = "g",
                          .group_size = 2,
                          .root = 2,
                          .inputs = {1},
                          .outputs = {1}};
                },
                "forward: step 4: broadcast with root 2 of 2 ranks"},
        BadCase{"RootOfAll", [](Program& p) { StepOf<CollectiveStep>(p, 1).root = 0; },
                "forward: step 1: all_gather with root 0 of 4 ranks"},
        BadCase{"NoOutputs", [](Program& p) { StepOf<CollectiveStep>(p, 1).outputs.clear(); },
                "forward: step 1: all_gather with 1 inputs and 0 outputs"},
        BadCase{"UnknownOp",
                [](Program& p) { StepOf<CollectiveStep>(p, 1).op = static_cast<Op>(5); },
                "forward: step 1: enum value 5 out of range"},
        BadCase{"Splits", [](Program& p) { StepOf<CollectiveStep>(p, 4).input_splits = {2, 1}; },
                "forward: step 4: splits do not add up"},
        BadCase{"SplitsForOtherRanks",
                [](Program& p) { StepOf<CollectiveStep>(p, 4).input_splits = {2}; },
                "forward: step 4: 1 splits for 2 ranks"},
        BadCase{"SplitsTooFew",
                [](Program& p) { StepOf<CollectiveStep>(p, 4).input_splits = {1, 0}; },
                "forward: step 4: splits do not add up"},
        BadCase{"OtherDType",
                [](Program& p) { p.functions[0].tensors[5].spec.dtype = DType::kI32; },
                "forward: step 1: input and output differ in dtype"},
        BadCase{"SplitsOfAllGather",
                [](Program& p) { StepOf<CollectiveStep>(p, 1).input_splits = {2}; },
                "forward: step 1: all_gather with splits"},
        BadCase{"NeverWaitedFor", [](Program& p) { p.functions[0].steps.pop_back(); },
                "forward: step 7: nothing waits for this collective"},
        BadCase{"WaitsForNothing", [](Program& p) { StepOf<WaitStep>(p, 3).step = 0; },
                "forward: step 3: step 0 is not a collective under way"},
        BadCase{"WaitsTwice", [](Program& p) { p.functions[0].steps.push_back(WaitStep{7}); },
                "forward: step 9: step 7 is not a collective under way"},
        BadCase{"ReadsWhatIsUnderWay",
                [](Program& p) { StepOf<EagerStep>(p, 2).args[0] = {TensorArgument{5}}; },
                "forward: step 2: touches a tensor that the collective of step 1 uses"}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Functions, BadProgram,
    ::testing::Values(
        BadCase{"None", [](Program& p) { p.functions.clear(); },
                "0 functions, not a forward and perhaps a backward"},
        BadCase{"Three", [](Program& p) { p.functions.push_back(p.functions[1]); },
                "3 functions, not a forward and perhaps a backward"},
        BadCase{"NoName", [](Program& p) { p.functions[1].name.clear(); }, "function 1: no name"},
        BadCase{"SameName", [](Program& p) { p.functions[1].name = "forward"; },
                "function 1: a second forward"},
        BadCase{"LongName", [](Program& p) { p.functions[1].name.assign(257, 'x'); },
                "function 1: name of 257 bytes, at most 256"},
        BadCase{"SavedByTheBackward",
                [](Program& p) { p.functions[1].outputs[0].returned = false; },
                "backward: output 0: is for a backward, which there is not"},
        BadCase{"DifferentiableBackward",
                [](Program& p) { p.functions[1].outputs[0].requires_grad = true; },
                "backward: output 0: is for a backward, which there is not"},
        BadCase{"SavedWithoutABackward",
                [](Program& p) {
                  p.functions.pop_back();
                  for (ProgramOutput& output : p.functions[0].outputs) {
                    output.returned = true;
                    output.requires_grad = false;
                  }
                },
                "saved values or gradients without a backward"},
        BadCase{"SavedOutputPastEnd", [](Program& p) { p.saved[0].output = 9; },
                "saved value 0: forward has no output 9"},
        BadCase{"SavedInputPastEnd", [](Program& p) { p.saved[0].input = 3; },
                "saved value 0: backward has no input 3"},
        BadCase{"SavedOtherType",
                [](Program& p) { p.functions[1].inputs[0].spec.dtype = DType::kI32; },
                "saved value 0: output 7 of forward is not what input 0 of backward takes"},
        BadCase{"SavedOtherStrides",
                [](Program& p) { p.functions[1].inputs[0].spec.strides = {1, 2}; },
                "saved value 0: output 7 of forward is not what input 0 of backward takes"},
        BadCase{"SavedOtherKind",
                [](Program& p) { p.functions[1].inputs[2].kind = InputKind::kSeed; },
                "saved value 1: output 8 of forward is not what input 2 of backward takes"},
        BadCase{"SavedNone", [](Program& p) { p.saved[0].output = 3; },
                "saved value 0: output 3 of forward is neither a tensor nor random state"},
        BadCase{"FilledTwice", [](Program& p) { p.saved.push_back(p.saved[0]); },
                "saved value 2: input 0 of backward is filled twice"},
        BadCase{"NeitherTangentNorSaved", [](Program& p) { p.saved.erase(p.saved.begin()); },
                "input 0 of backward is neither a tangent nor saved"},
        BadCase{"TangentOfSavedInput", [](Program& p) { p.tangents[0].backward = 0; },
                "tangent of output 0: input 0 of backward is filled twice"},
        BadCase{"TangentWithoutGrad",
                [](Program& p) { p.functions[0].outputs[0].requires_grad = false; },
                "tangent of output 0: the output requires no gradient"},
        BadCase{"TangentTwice",
                [](Program& p) {
                  p.functions[1].inputs.push_back(p.functions[1].inputs[1]);
                  p.tangents.push_back({0, 3});
                },
                "tangent of output 0: named twice"},
        BadCase{"TangentOfOtherSize",
                [](Program& p) { p.functions[1].inputs[1].spec.sizes = {3, 2}; },
                "tangent of output 0: differs in dtype or sizes"},
        BadCase{"GradientOfNoInput", [](Program& p) { p.gradients[0].forward = 5; },
                "gradient of input 5: no such input"},
        BadCase{"GradientOfANumber", [](Program& p) { p.gradients[0].forward = 3; },
                "gradient of input 3: differs in dtype or sizes"},
        BadCase{"GradientIsNone", [](Program& p) { p.gradients[0].backward = 1; },
                "gradient of input 0: output 1 of backward is neither a tensor nor random state"},
        BadCase{"GradientTwice", [](Program& p) { p.gradients.push_back(p.gradients[0]); },
                "gradient of input 0: named twice"}),
    CaseName);

// Only the draws of an offset are in the bytes.
TEST(BadPrograms, OnlyOffsetsDraw) {
  Program program = testing::SampleProgram();
  program.functions[0].inputs[3].draws = 1;
  EXPECT_EQ(ToText(ValidateProgram(program)),
            "DATA_LOSS: forward: input 3: draws random numbers, but is not an offset");
}

TEST(GoodProgram, CollectivesOfEveryKind) {
  for (uint8_t number = 0; number <= static_cast<uint8_t>(Op::kAllToAll); ++number) {
    const CollectiveRow& row = kCollectives[number];
    CollectiveStep step{.op = static_cast<Op>(number), .group = "g", .group_size = 1};
    if (row.reduces) step.reduce_op = ReduceOp::kSum;
    if (row.has_root) step.root = 0;
    step.inputs = {1};
    step.outputs = {1};
    Program program = testing::SampleProgram();
    program.functions[0].steps.push_back(step);
    program.functions[0].steps.push_back(WaitStep{9});
    EXPECT_TRUE(ValidateProgram(program).ok())
        << row.name << ": " << ToText(ValidateProgram(program));
    EXPECT_TRUE(DecodeProgram(EncodeProgram(program)).ok()) << row.name;
    EXPECT_THAT(PrintProgram(program),
                ::testing::HasSubstr("\n  collective " + std::string(row.name) + "("));
  }
}

}  // namespace
}  // namespace hpu
