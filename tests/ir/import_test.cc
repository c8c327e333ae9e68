#include "compiler_server/ir/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler_server/ir/text.h"
#include "tests/graph/sample_graphs.h"

namespace hpu::ir {
namespace {

using testing::HasSubstr;
using namespace sample_graphs;  // NOLINT: only helpers of tests

// Returns the IR of the graph as text.
std::string Printed(const GraphBuilder& builder) {
  const auto captured = builder.Finish();
  EXPECT_TRUE(captured.ok()) << captured.status();
  if (!captured.ok()) return "";
  auto graph = Import(*captured);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? Print(*graph) : "";
}

uint32_t Relu(GraphBuilder& builder, uint32_t x) {
  return AddCall(builder, "aten.relu.default", {x}, {{Spec({2, 3}), kOwnMemory}});
}

uint32_t Copy(GraphBuilder& builder, uint32_t target, uint32_t source, TensorSpec spec) {
  CapturedCall call;
  call.args = {Tensor(target), Tensor(source), {false}};
  call.results = {{std::move(spec), target}};
  call.writes = {target};
  call.source = "model.py:13 in forward";
  return builder.AddCall({"aten.copy_.default", {"self", "src", "non_blocking"}}, call);
}

TEST(Import, CallsBecomeAtenNodesWithAllArguments) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({2, 3}));
  CapturedCall call;
  call.args = {Tensor(x),
               {ArgumentList{{int64_t{-1}}, {NoneArgument{}}, Tensor(x)}},
               {DTypeArgument{DType::kBF16}},
               {DeviceArgument{"cpu"}}};
  call.results = {{Spec({2, 3}), kOwnMemory}};
  call.draws_random = true;
  builder.SetOutputs(
      {Tensor(builder.AddCall({"aten.f.default", {"self", "l", "dtype", "device"}}, call))});
  EXPECT_THAT(Printed(builder),
              HasSubstr("aten \"aten.f.default\"(self = %x, l = [-1, none, %x], dtype = dtype "
                        "bf16, device = device \"cpu\") random : f32[2,3]\n  return %0\n"));
}

TEST(Import, NamesAreMadeUniqueAndPrintable) {
  GraphBuilder builder("g");
  for (const char* name : {"L['x'].w", "L['x']_w", "", "const0"}) {
    AddInput(builder, name, Spec({1}));
  }
  builder.AddInput({.kind = CapturedInput::Kind::kScalar, .spec = {}, .name = ""});
  EXPECT_THAT(Printed(builder), HasSubstr("%L__x___w: f32[1],\n    %L__x___w_: f32[1],\n    %in2_: "
                                          "f32[1],\n    %in3_const0: f32[1],\n    %in4_: scalar"));
}

TEST(Import, OutputsOverOneMemoryShareAStorage) {
  GraphBuilder builder("g");
  const uint32_t y = Relu(builder, AddInput(builder, "x", Spec({2, 3})));
  const uint32_t t = AddCall(builder, "aten.t.default", {y}, {{Spec({3, 2}, {1, 3}), y}});
  const uint32_t c = AddCall(builder, "aten.clone.default", {y}, {{Spec({2, 3}), kOwnMemory}});
  builder.SetOutputs({Tensor(y), Tensor(t), Tensor(c)});
  EXPECT_THAT(Printed(builder), HasSubstr("return %0, %0 as f32[3,2]{1,3}, %2\n"));
}

// The capture decides whether a reshape is a view, and not the name.
TEST(Import, OutputsThatAreInputsOrViewsOfThem) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({4, 4}, {}, 100));
  const uint32_t s = AddCall(builder, "aten.slice.Tensor", {x}, {{Spec({4, 2}, {4, 1}, 102), x}});
  const uint32_t copy = AddCall(builder, "aten.reshape.default", {s}, {{Spec({8}), kOwnMemory}});
  const uint32_t view = AddCall(builder, "aten.reshape.default", {x}, {{Spec({16}, {}, 100), x}});
  builder.SetOutputs({Tensor(x), Tensor(s), Tensor(copy), Tensor(view)});
  EXPECT_THAT(Printed(builder), HasSubstr("return alias %x, alias %x as f32[4,2]{4,1} + 2, %1, "
                                          "alias %x as f32[16]\n"));
}

TEST(Import, FormsThatTheViewDoesNotImplyAreKept) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({4}));
  const uint32_t same = AddCall(builder, "aten.view.default", {x}, {{Spec({4}), x}});
  const uint32_t part = AddCall(builder, "aten.slice.Tensor", {x}, {{Spec({2}), x}});
  builder.SetOutputs({Tensor(x), Tensor(same), Tensor(part), Tensor(part), Tensor(same)},
                     {AliasForm::kSame, AliasForm::kView, AliasForm::kView,
                      AliasForm::kViewWithGradient, AliasForm::kDetached});
  EXPECT_THAT(Printed(builder),
              HasSubstr("return alias %x, alias %x form view, alias %x as f32[2], "
                        "alias %x as f32[2] form view_with_gradient, alias %x form detached\n"));
}

TEST(Import, BytesSeenAsAnotherTypeAreACopy) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({4}));
  const uint32_t y = AddCall(builder, "aten.view.dtype", {x}, {{Spec({4}, {}, 0, DType::kI32), x}});
  builder.SetOutputs({Tensor(y)});
  EXPECT_THAT(Printed(builder), HasSubstr("return %0\n"));
}

TEST(Import, CopyOntoAnInputIsAMutation) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({2, 3}));
  const uint32_t y = Relu(builder, x);
  const uint32_t row = AddCall(builder, "aten.select.int", {x}, {{Spec({3}, {1}, 3), x}});
  const uint32_t sum = AddCall(builder, "aten.sum.default", {y}, {{Spec({1}), kOwnMemory}});
  const uint32_t written = Copy(builder, row, sum, Spec({3}, {1}, 3));
  const uint32_t z = AddCall(builder, "aten.neg.default", {written}, {{Spec({3}), kOwnMemory}});
  builder.SetOutputs({Tensor(y), Tensor(z), Tensor(x)});
  const std::string text = Printed(builder);
  // The source is broadcast; later reads of the written memory see the source.
  EXPECT_THAT(text, HasSubstr("%3 = expand %2 : f32[3]\n  %4 = aten \"aten.neg.default\"(a = %3)"));
  EXPECT_THAT(text, HasSubstr("mutate %x as f32[3] + 3 = %3\n  return %0, %4, alias %x\n"));
}

TEST(Import, AsStridedIsTakenOfTheMemory) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({4, 4}, {}, 10));
  const uint32_t row = AddCall(builder, "aten.select.int", {x}, {{Spec({4}, {1}, 14), x}});
  const uint32_t strided =
      AddCall(builder, "aten.as_strided.default", {row}, {{Spec({3}, {5}, 11), row}});
  const uint32_t y = AddCall(builder, "aten.neg.default", {strided}, {{Spec({3}), kOwnMemory}});
  builder.SetOutputs({Tensor(y)});
  EXPECT_THAT(Printed(builder), HasSubstr("as_strided %x {offset = 1, strides = [5]} : f32[3]"));
}

TEST(Import, NumbersAndNoneAreReturned) {
  GraphBuilder builder("g");
  builder.SetOutputs({{NoneArgument{}}, {int64_t{-3}}, {1.5}, {true}});
  EXPECT_THAT(Printed(builder), HasSubstr("return none, int -3, float 1.5, bool true\n"));
}

// Checks of refusals: what is wrong, where, and with which code.
struct Refusal {
  const char* name;
  void (*build)(GraphBuilder& builder, uint32_t x);
  absl::StatusCode code;
  const char* message;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithAMessage) {
  GraphBuilder builder("g");
  GetParam().build(builder, AddInput(builder, "x", Spec({2, 3})));
  const auto captured = builder.Finish();
  ASSERT_TRUE(captured.ok()) << captured.status();
  const auto graph = Import(*captured);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.status().code(), GetParam().code) << graph.status();
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr(GetParam().message));
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnable = absl::StatusCode::kUnimplemented;

INSTANTIATE_TEST_SUITE_P(
    All, Refused,
    testing::Values(
        Refusal{
            "rank",
            [](GraphBuilder& b, uint32_t) { AddInput(b, "y", Spec(std::vector<int64_t>(20, 1))); },
            kInvalid, "input 1: [type_c2]"},
        Refusal{"absurd size",
                [](GraphBuilder& b, uint32_t) { AddInput(b, "y", Spec({int64_t{1} << 45})); },
                kInvalid, "[type_c5]"},
        Refusal{
            "copy to an intermediate",
            [](GraphBuilder& b, uint32_t x) { Copy(b, Relu(b, x), x, Spec({2, 3})); }, kInvalid,
            "call 1 aten.copy_.default (model.py:13 in forward): copy_ writes to value 1, which "
            "is no input's memory"},
        Refusal{"copy of a number",
                [](GraphBuilder& b, uint32_t x) {
                  CapturedCall call;
                  call.args = {Tensor(x), {1.5}};
                  b.AddCall({"aten.copy_.default", {"self", "src"}}, call);
                },
                kInvalid, "copy_ takes two tensors"},
        Refusal{"copy without arguments",
                [](GraphBuilder& b, uint32_t) { b.AddCall({"aten.copy_.default", {}}, {}); },
                kInvalid, "copy_ takes two tensors"},
        Refusal{"as_strided without arguments",
                [](GraphBuilder& b, uint32_t) { b.AddCall({"aten.as_strided.default", {}}, {}); },
                kInvalid, "as_strided takes a tensor"},
        Refusal{"write by another op",
                [](GraphBuilder& b, uint32_t x) {
                  CapturedCall call;
                  call.args = {Tensor(x)};
                  call.writes = {x};
                  b.AddCall({"aten.relu_.default", {"self"}}, call);
                },
                kUnable, "aten.relu_.default: writes to a tensor"},
        Refusal{"read of stale memory",
                [](GraphBuilder& b, uint32_t x) {
                  const uint32_t y = Relu(b, x);
                  const uint32_t turned =
                      AddCall(b, "aten.t.default", {x}, {{Spec({3, 2}, {1, 3}), x}});
                  Copy(b, x, y, Spec({2, 3}));
                  AddCall(b, "aten.neg.default", {turned}, {{Spec({3, 2}), kOwnMemory}});
                },
                kUnable, "read after memory it lies in was written"},
        Refusal{"view outside its tensor",
                [](GraphBuilder& b, uint32_t x) {
                  b.SetOutputs(
                      {Tensor(AddCall(b, "aten.slice.Tensor", {x}, {{Spec({6}, {2}), x}}))});
                },
                kUnable, "reaches outside"},
        Refusal{"output with gaps",
                [](GraphBuilder& b, uint32_t x) {
                  b.SetOutputs({Tensor(
                      AddCall(b, "aten.neg.default", {x}, {{Spec({2, 3}, {6, 2}), kOwnMemory}}))});
                },
                kUnable, "not dense"}));

TEST(Import, LimitsAreNamed) {
  GraphBuilder builder("g");
  Relu(builder, AddInput(builder, "x", Spec({2, 3})));
  const auto graph = Import(builder.Finish().value(), {.max_calls = 0});
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("1 calls, more than 0"));
}

}  // namespace
}  // namespace hpu::ir
