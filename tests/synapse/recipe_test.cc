#include "recipe/recipe.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/container.h"
#include "base/hash.h"
#include "emulator/runtime/loaded_recipe.h"
#include "tests/synapse/test_recipes.h"

namespace hpu::emulator {
namespace {

Recipe RichRecipe() {
  Recipe recipe = PackedAddRecipe(100);
  recipe.constants = {1, 2, 3, 4};
  recipe.const_sections = {{.section = 7, .data = {9, 8, 7}}};
  recipe.tensors[0].permutation = {0};
  recipe.tensors[2].external = true;
  recipe.kernels[0].flops = 12345;
  recipe.kernels[0].factors = Factors::kBf16;
  recipe.kernels[0].scratch_bytes = 4096;
  recipe.kernels[0].operands.push_back(
      {.kind = OperandRef::Kind::kConstant, .index = 0, .offset = 2});
  recipe.kernels[0].operands.push_back({.kind = OperandRef::Kind::kNull, .index = 0, .offset = 0});
  // A custom kernel that reads 10 x 5 elements of `b`, every other one from behind.
  recipe.custom_kernels = {{.guid = "mine",
                            .version = 3,
                            .params = {1, 2},
                            .inputs = {{syn_type_int32, {10, 5}, {-2, 20}}},
                            .outputs = {{syn_type_int32, {10, 5}, {1, 10}}}}};
  KernelLaunch custom;
  custom.name = "custom";
  custom.custom = 0;
  custom.operands = {{.kind = OperandRef::Kind::kPersistent, .index = 1, .offset = 18 * 4},
                     {.kind = OperandRef::Kind::kPersistent, .index = 2, .offset = 0}};
  recipe.kernels.push_back(std::move(custom));
  return recipe;
}

// Corrects the checksum of changed bytes, as a forger would.
void Reseal(Bytes& bytes) {
  const size_t body = bytes.size() - sizeof(Digest);
  const Digest digest = Sha256(std::span<const uint8_t>(bytes).first(body));
  std::memcpy(bytes.data() + body, digest.data(), digest.size());
}

TEST(RecipeTest, RoundTripGivesEqualBytes) {
  const Bytes bytes = EncodeRecipe(RichRecipe());
  const auto decoded = DecodeRecipe(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(EncodeRecipe(*decoded), bytes);
  EXPECT_EQ(decoded->tensors[2].name, "out");
  EXPECT_TRUE(decoded->tensors[2].external);
  EXPECT_EQ(decoded->kernels[0].flops, 12345u);
  EXPECT_EQ(decoded->kernels[0].factors, Factors::kBf16);
  EXPECT_EQ(decoded->packed[0].format, "test copy 100");
  EXPECT_EQ(decoded->const_sections[0].data, (Bytes{9, 8, 7}));
  EXPECT_EQ(decoded->kernels[0].custom, KernelLaunch::kOwnCode);
  EXPECT_EQ(decoded->kernels[1].custom, 0u);
  EXPECT_EQ(decoded->custom_kernels[0].guid, "mine");
  EXPECT_EQ(decoded->custom_kernels[0].version, 3u);
  EXPECT_EQ(decoded->custom_kernels[0].params, (Bytes{1, 2}));
  EXPECT_EQ(decoded->custom_kernels[0].inputs[0].strides, (std::vector<int64_t>{-2, 20}));
}

TEST(RecipeTest, EveryFlippedByteIsDataLossOrAnotherVersion) {
  const Bytes good = EncodeRecipe(RichRecipe());
  for (size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= 0x40;
    const bool in_version = i >= 8 && i < kContainerHead;
    ASSERT_EQ(DecodeRecipe(bad).status().code(),
              in_version ? absl::StatusCode::kUnimplemented : absl::StatusCode::kDataLoss)
        << "byte " << i;
  }
}

TEST(RecipeTest, EveryTruncationIsDataLoss) {
  const Bytes good = EncodeRecipe(RichRecipe());
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_EQ(DecodeRecipe(std::span(good).first(size)).status().code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
}

// With a right checksum only the reader and the range checks protect: any outcome is allowed except
// a crash or another code.
TEST(RecipeTest, MutationsWithRightChecksumNeverCrash) {
  const Bytes good = EncodeRecipe(RichRecipe());
  const uint8_t values[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
  int accepted = 0;
  for (size_t i = 0; i + sizeof(Digest) < good.size(); ++i) {
    for (const uint8_t value : values) {
      Bytes bad = good;
      bad[i] = value;
      Reseal(bad);
      auto decoded = DecodeRecipe(bad);
      if (!decoded.ok()) {
        const bool in_version = i >= 8 && i < kContainerHead;
        ASSERT_EQ(decoded.status().code(),
                  in_version ? absl::StatusCode::kUnimplemented : absl::StatusCode::kDataLoss);
        continue;
      }
      ++accepted;
      const LoadedRecipe loaded(std::move(decoded).value());
      ASSERT_EQ(loaded.num_operands(), loaded.recipe().kernels[0].operands.size() +
                                           loaded.recipe().kernels[1].operands.size());
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(RecipeTest, RandomBytesAfterTheHeader) {
  std::mt19937 random(1);
  const Bytes good = EncodeRecipe(RichRecipe());
  for (int round = 0; round < 3000; ++round) {
    Bytes bad(good.begin(), good.begin() + 12);
    const size_t size = random() % 400;
    for (size_t i = 0; i < size; ++i) bad.push_back(static_cast<uint8_t>(random()));
    bad.resize(bad.size() + sizeof(Digest));
    Reseal(bad);
    ASSERT_EQ(DecodeRecipe(bad).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(RecipeTest, RangeChecks) {
  const auto refused = [](auto&& change) {
    Recipe recipe = RichRecipe();
    change(recipe);
    return DecodeRecipe(EncodeRecipe(recipe)).status().code() == absl::StatusCode::kDataLoss;
  };
  EXPECT_FALSE(refused([](Recipe&) {}));
  EXPECT_TRUE(refused([](Recipe& r) { r.kernels[0].entry = uint32_t(r.code.size()); }));
  EXPECT_TRUE(refused([](Recipe& r) { r.kernels[0].operands[1].index = 3; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.kernels[0].operands[0].index = 1; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.kernels[0].operands[1].offset = 401; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.kernels[0].grain = 0; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.kernels[0].scratch_bytes = uint64_t{1} << 40; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.workspace_bytes = 100; }));
  EXPECT_FALSE(refused([](Recipe& r) { r.kept_bytes = 256; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.kept_bytes = 100; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.prologue = uint32_t(r.kernels.size()) + 1; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.prologue = 1; }));  // it writes a tensor
  EXPECT_TRUE(refused([](Recipe& r) {
    r.kept_bytes = 256;
    r.kernels[0].operands[0] = {.kind = OperandRef::Kind::kKept, .index = 0, .offset = 257};
  }));
  EXPECT_TRUE(refused([](Recipe& r) { r.packed[0].source_bytes = 401; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.packed[0].source.kind = OperandRef::Kind::kWorkspace; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.tensors[0].sizes = {uint64_t{1} << 60, 16}; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.tensors[0].permutation = {1}; }));
  EXPECT_TRUE(refused([](Recipe& r) { r.tensors[0].dtype = syn_type_na; }));
}

TEST(RecipeTest, RangeChecksOfCustomKernels) {
  const auto refusal = [](auto&& change) {
    Recipe recipe = RichRecipe();
    change(recipe.kernels[1], recipe.custom_kernels[0]);
    return std::string(DecodeRecipe(EncodeRecipe(recipe)).status().message());
  };
  using Launch = KernelLaunch;
  using Custom = CustomKernel;
  EXPECT_EQ(refusal([](Launch&, Custom&) {}), "");
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"custom kernel 1 of 1", refusal([](Launch& l, Custom&) { l.custom = 1; })},
      {"and entry 1 of a custom", refusal([](Launch& l, Custom&) { l.entry = 1; })},
      {" 2 tasks ", refusal([](Launch& l, Custom&) { l.tasks = 2; })},
      {": 1 operands", refusal([](Launch& l, Custom&) { l.operands.pop_back(); })},
      {"18 before", refusal([](Launch& l, Custom&) { l.operands[0].offset = 17 * 4; })},
      {"to 80 behind", refusal([](Launch& l, Custom&) { l.operands[0].offset = 21 * 4; })},
      {"operand 1: ", refusal([](Launch& l, Custom&) { l.operands[1].offset = 51 * 4; })},
      {"operand 0: ", refusal([](Launch& l, Custom&) { l.operands[0] = {}; })},
      {"dimension 0 of size 0", refusal([](Launch&, Custom& c) { c.inputs[0].sizes[0] = 0; })},
      {"2 sizes and 1 str", refusal([](Launch&, Custom& c) { c.inputs[0].strides.pop_back(); })},
      {"element type", refusal([](Launch&, Custom& c) { c.inputs[0].dtype = syn_type_na; })},
      {"stride ", refusal([](Launch&, Custom& c) { c.outputs[0].strides[1] = INT64_MIN; })},
  };
  for (const auto& [expected, message] : refused) {
    EXPECT_NE(message.find(expected), std::string::npos) << expected << ": " << message;
  }
  Recipe recipe = RichRecipe();
  std::swap(recipe.kernels[0], recipe.kernels[1]);
  recipe.tensors[2].is_written = false;
  recipe.prologue = 1;
  EXPECT_NE(DecodeRecipe(EncodeRecipe(recipe)).status().message().find("is a custom one"),
            std::string::npos);
}

TEST(LoadedRecipeTest, PlansSectionsAndExternals) {
  Recipe recipe = GatedAddRecipe(10);
  recipe.tensors[2].section = 1;  // a and b share a section
  recipe.tensors[2].section_offset = 64;
  recipe.tensors[1].external = true;
  const LoadedRecipe loaded(std::move(recipe));
  ASSERT_EQ(loaded.sections().size(), 3u);
  EXPECT_EQ(loaded.sections()[1].end, 64u + 40u);
  EXPECT_EQ(loaded.section_of(2), loaded.section_of(1));
  EXPECT_EQ(loaded.external_tensors(), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(loaded.external_ready_after(), (std::vector<uint32_t>{2, 2}));
  EXPECT_EQ(loaded.FindTensor("out"), 3u);
  EXPECT_EQ(loaded.IndexOfId(4), std::nullopt);
  EXPECT_EQ(loaded.IndexOfId(SYN_TENSOR_ID(3, SHAPE_TENSOR)), std::nullopt);
}

TEST(LoadedRecipeTest, HigherIsaLevelIsRefusedWithBothNames) {
  Recipe recipe = AddRecipe(10);
  recipe.isa = IsaLevel::kV4Amx;
  LoadedRecipe loaded(std::move(recipe));
  const absl::Status status = loaded.EnsureExecutable();
  if (status.ok()) GTEST_SKIP() << "no higher level than this CPU's";
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(status.message()).find("x86-64-v4-amx"), std::string::npos);
}

TEST(LoadedRecipeTest, CodeRunsOnceMapped) {
  LoadedRecipe loaded(AddRecipe(4));
  ASSERT_TRUE(loaded.EnsureExecutable().ok());
  int32_t a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40}, out[4] = {};
  void* operands[] = {a, b, out};
  loaded.function(loaded.recipe().kernels[0].entry)(operands, 0, 4, nullptr);
  EXPECT_EQ(out[3], 44);
}

}  // namespace
}  // namespace hpu::emulator
