#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/sample_graphs.h"

namespace hpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace sample_graphs;  // NOLINT: helpers of this folder only

TEST(GraphBuilder, PrintsAsListed) {
  EXPECT_EQ(PrintGraph(Everything()),
            "captured graph \"everything\"\n"
            "  input %0: f32[2,3]{3,1}  \"x\"\n"
            "  input %1: number  \"n\"\n"
            "  constant %2: u8[2]{1} = 0xabcd\n"
            "  %3 = aten.relu.default(a=%0) : f32[2,3]{3,1}  # model.py:12 in forward\n"
            "  %4 = aten.t.default(a=%3) : f32[3,2]{1,3} in %3  # model.py:12 in forward\n"
            "  %5 = aten.copy_.default(self=%0, src=%3, non_blocking=False) : f32[2,3]{3,1} in %0 "
            "writes %0\n"
            "  %6 = custom.op.out(n=None, i=-3, f=1.5, s=\"text\", d=bf16, m=channels_last, v=hpu, "
            "l=[%2, 1, [True]]) : f32[]{} random\n"
            "  return %6, None, 7, 2.5, True\n");
}

// Constants that are declared late, in another order, or without use make the same graph.
TEST(GraphBuilder, OrderOfDeclarationDoesNotShow) {
  const auto graph = [](bool late) {
    GraphBuilder builder("g");
    const uint32_t x = AddInput(builder, "x", Spec({2}));
    const CapturedConstant one{Spec({1}, {}, 0, DType::kU8), Bytes{1}};
    const CapturedConstant two{Spec({1}, {}, 0, DType::kU8), Bytes{2}};
    uint32_t first = 0;
    uint32_t second = 0;
    if (!late) {
      builder.AddConstant({Spec({1}, {}, 0, DType::kU8), Bytes{9}});  // unused
      second = builder.AddConstant(two);
      first = builder.AddConstant(one);
    }
    const uint32_t y = AddCall(builder, "aten.neg.default", {x}, {{Spec({2}), kOwnMemory}});
    if (late) {
      first = builder.AddConstant(one);
      second = builder.AddConstant(two);
    }
    const uint32_t z =
        AddCall(builder, "aten.f.default", {y, first, second}, {{Spec({2}), kOwnMemory}});
    builder.SetOutputs({Tensor(z)});
    return EncodeGraph(builder.Finish().value());
  };
  EXPECT_EQ(graph(true), graph(false));
}

TEST(GraphBuilder, ViewsOfViewsLieInTheRootAtItsOffset) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({8}, {1}, 10));
  const uint32_t y = AddCall(builder, "aten.slice.Tensor", {x}, {{Spec({4}, {1}, 12), x}});
  const uint32_t z = AddCall(builder, "aten.slice.Tensor", {y}, {{Spec({2}, {1}, 13), y}});
  builder.SetOutputs({Tensor(z)});
  const CapturedGraph graph = builder.Finish().value();
  EXPECT_EQ(graph.inputs[0].spec.storage_offset, 0);
  EXPECT_EQ(graph.calls[1].results[0].memory_of, x);
  EXPECT_EQ(graph.calls[1].results[0].spec.storage_offset, 3);
}

TEST(GraphBuilder, AliasFormsAreThoseOfTensorsInInputsMemory) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({8}));
  const uint32_t part = AddCall(builder, "aten.slice.Tensor", {x}, {{Spec({4}), x}});
  const uint32_t own = AddCall(builder, "aten.neg.default", {x}, {{Spec({8}), kOwnMemory}});
  builder.SetOutputs({Tensor(x), Tensor(part), Tensor(part), Tensor(own), {int64_t{3}}, Tensor(x)},
                     {AliasForm::kNone, AliasForm::kNone, AliasForm::kViewWithoutGradient,
                      AliasForm::kDetached, AliasForm::kDetached, AliasForm::kDetached});
  EXPECT_THAT(builder.Finish()->alias_forms,
              ElementsAre(AliasForm::kSame, AliasForm::kView, AliasForm::kViewWithoutGradient,
                          AliasForm::kNone, AliasForm::kNone, AliasForm::kDetached));
}

TEST(GraphBuilder, SchemasAreListedOnce) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({8}));
  const uint32_t y = AddCall(builder, "aten.neg.default", {x}, {{Spec({8}), kOwnMemory}});
  const uint32_t z = AddCall(builder, "aten.neg.default", {y}, {{Spec({8}), kOwnMemory}});
  builder.SetOutputs({Tensor(z)});
  EXPECT_THAT(builder.Finish()->schemas, ElementsAre(OpSchema{"aten.neg.default", {"a"}}));
}

TEST(GraphBuilder, LabelsAreCutBetweenCharacters) {
  GraphBuilder builder(std::string(kMaxLabelBytes - 1, 'x') + "\xC3\xA4");
  EXPECT_EQ(builder.Finish()->name, std::string(kMaxLabelBytes - 1, 'x'));
}

TEST(GraphBuilder, RefusesWhatDoesNotExist) {
  GraphBuilder builder("g");
  const uint32_t x = AddInput(builder, "x", Spec({8}));
  AddCall(builder, "aten.neg.default", {x + 5}, {{Spec({8}), kOwnMemory}});
  const absl::Status status = builder.Finish().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("value 5 does not exist"));
}

TEST(ParseTarget, GivesTheDispatchersName) {
  EXPECT_EQ(ParseTarget("aten.add.Tensor")->name, "aten::add");
  EXPECT_EQ(ParseTarget("aten.add.Tensor")->overload, "Tensor");
  EXPECT_EQ(ParseTarget("aten.relu.default")->overload, "");
  for (const char* bad : {"", "aten", "aten.add", ".add.x", "aten..x", "aten.add."}) {
    EXPECT_FALSE(ParseTarget(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace hpu
