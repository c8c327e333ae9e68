// The compiler as the server calls it: equal graphs, options and levels must give equal bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler_server/compiler/describe_recipe.h"
#include "tests/lowering/goldens.h"
#include "tests/lowering/test_device.h"

namespace hpu::compiler {
namespace {

using hpu::testing::CompileText;
using hpu::testing::TheDevice;

constexpr char kSmallGraph[] =
    "graph @g(%x: f32[4,6]) {\n %0 = relu %x : f32[4,6]\n return %0\n}\n";

// Equal graphs must give equal bytes; otherwise equal recipes would be stored twice.
TEST(CompilerFacade, IsDeterministic) {
  for (const std::string& name : hpu::testing::RunnableGoldens()) {
    const std::string text = hpu::testing::ReadFile(hpu::testing::GoldenSource(name));
    const absl::StatusOr<CompiledProgram> first = CompileText(text, {});
    const absl::StatusOr<CompiledProgram> second = CompileText(text, {});
    ASSERT_TRUE(first.ok()) << name << ": " << ToText(first.status());
    ASSERT_TRUE(second.ok()) << name << ": " << ToText(second.status());
    EXPECT_EQ(first->recipes, second->recipes) << name;
    EXPECT_EQ(first->program, second->program) << name;
  }
}

// One layer is in two models with other names, inputs in another order and other steps around it.
// None of that may be in the recipe, so that a store keeps it once.
TEST(CompilerFacade, ModelsWithALayerInCommonShareItsRecipe) {
  const auto first = CompileText(
      "graph @first(%x: f32[4,6], %w: f32[6,6]) {\n %0 = matmul %x, %w : f32[4,6]\n"
      " %1 = relu %0 : f32[4,6]\n %2 = aten \"aten.lgamma.default\"(self = %1) : f32[4,6]\n return "
      "%2\n}",
      {});
  const auto second = CompileText(
      "graph @second(%w: f32[6,6], %x: f32[4,6]) {\n %0 = exp %x : f32[4,6]\n"
      " %1 = aten \"aten.lgamma.default\"(self = %0) : f32[4,6]\n %2 = matmul %1, %w : f32[4,6]\n"
      " %3 = relu %2 : f32[4,6]\n return %3\n}",
      {});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  ASSERT_EQ(first->recipes.size(), 1U);
  ASSERT_EQ(second->recipes.size(), 2U);
  EXPECT_EQ(std::ranges::count(second->recipes, first->recipes[0]), 1);
}

TEST(CompilerFacade, RefusesUnknownOptions) {
  CompileOptions device;
  device.device_kind = "gaudi9";
  EXPECT_EQ(CompileText(kSmallGraph, device).status().code(), absl::StatusCode::kInvalidArgument);
  CompileOptions pass;
  pass.disabled_passes = {"no-such-pass"};
  EXPECT_EQ(CompileText(kSmallGraph, pass).status().code(), absl::StatusCode::kInvalidArgument);
  CompileOptions level;
  level.isa_level = "x86-64-v9";
  EXPECT_EQ(CompileText(kSmallGraph, level).status().code(), absl::StatusCode::kInvalidArgument);
  const Bytes garbage = {0xFF, 0x01, 0x02};
  ASSERT_TRUE(TheDevice().ok());
  EXPECT_EQ(TheDevice()->compiler->Compile(garbage, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CompilerFacade, LeavesOutPassesOfTheGraphCompiler) {
  const std::string text =
      "graph @g(%x: f32[4,6], %w: f32[6,6]) {\n %0 = matmul %x, %w : f32[4,6]\n"
      " %1 = relu %0 : f32[4,6]\n return %1\n}";
  CompileOptions options;
  const auto whole = CompileText(text, options);
  options.disabled_recipe_passes = "epilogues,inline-maps,row-groups";
  const auto apart = CompileText(text, options);
  ASSERT_TRUE(whole.ok() && apart.ok()) << whole.status() << apart.status();
  EXPECT_NE(apart->recipes[0], whole->recipes[0]);
  options.disabled_recipe_passes = "magic";
  EXPECT_THAT(ToText(CompileText(text, options).status()),
              ::testing::HasSubstr("no pass is named 'magic'"));
  options.disabled_recipe_passes = "";
  EXPECT_EQ(CompileText(text, options)->recipes, whole->recipes);
}

// The majority of a training graph's bytes decides: a model of which only the adapters are trained
// keeps its weights packed.
TEST(CompilerFacade, OnlyWeightsThatStayAreKeptPacked) {
  const auto workspace = [](const std::string& trained) {
    const auto compiled = CompileText(
        "graph @g(%x: f32[512,64], %w: f32[64,640], %a: f32[64,8], %t: f32[512,640], %u: "
        "f32[512,8]) {\n %0 = matmul %x, %w : f32[512,640]\n %1 = matmul %x, %a : f32[512,8]\n"
        " %2 = matmul %x, %t {transpose_a = true} : f32[64,640]\n"
        " %3 = matmul %x, %u {transpose_a = true} : f32[64,8]\n return %0, %1, %" +
            trained + "\n tangent %t of 0\n tangent %u of 1\n gradient 2 of %" +
            (trained == "2" ? "w" : "a") + "\n}",
        {});
    EXPECT_TRUE(compiled.ok()) << ToText(compiled.status());
    const auto info = DescribeRecipe(*TheDevice()->functions, compiled->recipes[0]);
    EXPECT_TRUE(info.ok()) << ToText(info.status());
    return info->workspace_bytes;
  };
  EXPECT_GE(workspace("2"), 64U * 640 * 4);
  EXPECT_EQ(workspace("3"), 0U);
}

// The front end says which inputs are trained where the graph itself has the backward.
TEST(CompilerFacade, TrainedInputsAreNotKeptPacked) {
  const auto workspace = [](const std::string& x_kind, const std::string& w_kind) {
    const auto compiled =
        CompileText("graph @g(%x: f32[512,64]" + x_kind + ", %w: f32[64,640]" + w_kind +
                        ") {\n %0 = matmul %x, %w : f32[512,640]\n return %0\n}",
                    {});
    EXPECT_TRUE(compiled.ok()) << ToText(compiled.status());
    const auto info = DescribeRecipe(*TheDevice()->functions, compiled->recipes[0]);
    EXPECT_TRUE(info.ok()) << ToText(info.status());
    return info->workspace_bytes;
  };
  EXPECT_EQ(workspace("", ""), 0U);
  EXPECT_EQ(workspace("", " weight"), 0U);
  EXPECT_GE(workspace("", " trained"), 64U * 640 * 4);
  EXPECT_EQ(workspace(" trained", ""), 0U);  // not most of the bytes
}

TEST(CompilerFacade, CompilesForTheLevelAskedFor) {
  CompileOptions options;
  options.isa_level = "x86-64-v2";
  const absl::StatusOr<CompiledProgram> compiled = CompileText(kSmallGraph, options);
  ASSERT_TRUE(compiled.ok()) << ToText(compiled.status());
  const absl::StatusOr<RecipeInfo> info =
      DescribeRecipe(*TheDevice()->functions, compiled->recipes[0]);
  ASSERT_TRUE(info.ok()) << ToText(info.status());
  EXPECT_EQ(info->isa_level, "x86-64-v2");
  ASSERT_EQ(info->tensors.size(), 2U);
  EXPECT_EQ(info->tensors[0].sizes, (std::vector<uint64_t>{4, 6}));
}

}  // namespace
}  // namespace hpu::compiler
