#include "tests/program/sample.h"

namespace hpu::testing {
namespace {

TensorSpec Spec(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                int64_t offset = 0) {
  return {dtype, std::move(sizes), std::move(strides), offset};
}

const TensorSpec kMatrix = Spec(DType::kF32, {2, 3}, {3, 1});

ProgramInput State(ProgramInput::Kind kind, uint64_t draws = 0) {
  return {.kind = kind, .spec = Spec(DType::kI64, {}, {}), .draws = draws};
}

EagerStep Lgamma() {
  EagerStep eager;
  eager.op = "aten::lgamma";
  eager.overload = "out";
  eager.args = {{TensorArgument{1}},
                {int64_t{3}},
                {2.5},
                {true},
                {std::string("mean")},
                {DTypeArgument{DType::kBF16}},
                {EnumArgument{"channels_last"}},
                {DeviceArgument{"hpu"}},
                {ArgumentList{{int64_t{1}}, {NoneArgument{}}}}};
  eager.outputs = {3};
  eager.reason = "no recipe kernel";
  return eager;
}

ProgramFunction Forward() {
  ProgramFunction forward;
  forward.inputs = {{.spec = kMatrix, .mutated = true},
                    {.kind = ProgramInput::Kind::kScalar},
                    {.spec = Spec(DType::kF32, {}, {}), .on_cpu = true},
                    State(ProgramInput::Kind::kSeed),
                    State(ProgramInput::Kind::kOffset, 4)};
  forward.buffer_bytes = {64, 96};
  forward.tensors = {{Placement::kInput, 0, Spec(DType::kF32, {3, 2}, {1, 3})},
                     {Placement::kBuffer, 0, Spec(DType::kF32, {2, 3}, {3, 1}, 4)},
                     {Placement::kConstant, 0, Spec(DType::kI64, {1}, {1})},
                     {Placement::kEager, 0, kMatrix},
                     {Placement::kInput, 4, Spec(DType::kI64, {}, {})},
                     {Placement::kBuffer, 1, Spec(DType::kF32, {8, 3}, {3, 1})},
                     {Placement::kEager, 0, Spec(DType::kF32, {1}, {1})}};
  CollectiveStep gather{.op = CollectiveStep::Op::kAllGather,
                        .group = "tp",
                        .group_size = 4,
                        .inputs = {1},
                        .outputs = {5}};
  CollectiveStep exchange{.op = CollectiveStep::Op::kAllToAll,
                          .group = "ep",
                          .group_size = 2,
                          .inputs = {1},
                          .outputs = {1},
                          .input_splits = {2, 0},
                          .output_splits = {1, 1}};
  CollectiveStep reduce{.op = CollectiveStep::Op::kAllReduce,
                        .reduce_op = CollectiveStep::ReduceOp::kSum,
                        .group = "dp",
                        .inputs = {3},
                        .outputs = {3}};
  forward.steps = {
      LaunchStep{0, {{"x", 0, false}, {"offset", 4, false}, {"y", 1, true}}},
      gather,
      Lgamma(),
      WaitStep{1},
      exchange,
      WaitStep{4},
      EagerStep{"aten::flatten", "", {{TensorArgument{5}}}, {6}, "no recipe kernel"},
      reduce,
      WaitStep{7},
  };
  using Kind = ProgramOutput::Kind;
  forward.outputs = {
      {.kind = Kind::kTensor, .index = 1, .requires_grad = true},
      {.kind = Kind::kInput, .index = 0},
      {.kind = Kind::kInputView,
       .index = 0,
       .view = Spec(DType::kF32, {3}, {1}, 3),
       .form = AliasForm::kDetached},
      {.kind = Kind::kNone},
      {.kind = Kind::kInt, .int_value = 7},
      {.kind = Kind::kBool, .int_value = 1},
      {.kind = Kind::kFloat, .float_value = 1.5},
      {.kind = Kind::kTensor, .index = 3, .returned = false},
      {.kind = Kind::kInput, .index = 4, .returned = false},
  };
  forward.node_count = 4;
  forward.eager_node_count = 2;
  return forward;
}

ProgramFunction Backward() {
  ProgramFunction backward;
  backward.name = "backward";
  backward.inputs = {{.spec = kMatrix},
                     {.spec = Spec(DType::kF32, {2, 3}, {0, 0})},
                     State(ProgramInput::Kind::kOffset)};
  backward.buffer_bytes = {24};
  backward.tensors = {{Placement::kInput, 0, kMatrix},
                      {Placement::kInput, 1, Spec(DType::kF32, {2, 3}, {0, 0})},
                      {Placement::kBuffer, 0, kMatrix}};
  backward.steps = {LaunchStep{1, {{"saved", 0, false}, {"tangent", 1, false}, {"g", 2, true}}}};
  backward.outputs = {{.kind = ProgramOutput::Kind::kTensor, .index = 2},
                      {.kind = ProgramOutput::Kind::kNone}};
  backward.node_count = 2;
  return backward;
}

}  // namespace

Program SampleProgram() {
  Program program;
  program.functions = {Forward(), Backward()};
  program.saved = {{7, 0, true}, {8, 2, false}};
  program.tangents = {{0, 1}};
  program.gradients = {{0, 0}};
  program.constants.push_back({Spec(DType::kI64, {1}, {1}), Bytes(8, 1)});
  program.recipes = {{Sha256({}), 100}, {Sha256(Bytes(1)), 200}};
  program.deterministic = true;
  return program;
}

}  // namespace hpu::testing
