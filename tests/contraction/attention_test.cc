#include <gtest/gtest.h>

#include "tests/contraction/attention_run.h"

namespace hpu::graph_compiler {
namespace {

class AttentionRun : public AttentionOperands {
 public:
  using AttentionOperands::AttentionOperands;

  EmittedKernels Kernels(IsaLevel isa) {
    return CompiledContraction(
               isa, [&](ContractionEmitter& emitter) { return emitter.EmitAttention(spec_); })
        .kernels();
  }

  void Check(IsaLevel isa) {
    SCOPED_TRACE(Name(c_) + " " + LevelName(isa));
    CompiledContraction compiled(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitAttention(spec_); });
    TestBuffer again(c_.type, out_->elements());
    compiled.Run({q_.get(), k_.get(), v_.get(), out_.get(), mask_.get()}, 1);
    compiled.Run({q_.get(), k_.get(), v_.get(), &again, mask_.get()}, 3, true);
    ASSERT_TRUE(out_->GuardsIntact());
    ASSERT_EQ(std::memcmp(out_->data(), again.data(), again.size_bytes()), 0);
    const double tolerance = c_.type == MemoryType::kF32 ? 2e-5 : 0.01;
    for (int64_t b = 0; b < c_.b; ++b) {
      for (int64_t h = 0; h < c_.h; ++h) {
        for (int64_t i = 0; i < c_.m; ++i) {
          const std::vector<double> expected = Reference(b, h, i);
          for (int64_t j = 0; j < c_.dv; ++j) {
            ASSERT_NEAR(At(*out_, spec_.out_strides, spec_.out_offset, b, h, i, j), expected[j],
                        tolerance)
                << b << " " << h << " " << i << " " << j;
          }
        }
      }
    }
  }

 private:
  std::vector<double> Reference(int64_t b, int64_t h, int64_t i) const {
    const std::vector<double> weights = Weights(b, h, i);
    std::vector<double> result(c_.dv, 0.0);
    for (int64_t n = 0; n < c_.n; ++n) {
      for (int64_t j = 0; j < c_.dv; ++j) result[j] += weights[n] * Value(b, h, n, j);
    }
    return result;
  }
};

void CheckAll(const std::vector<AttentionCase>& cases) { CheckAtAllLevels<AttentionRun>(cases); }

TEST(AttentionTest, Plain) {
  CheckAll({{.b = 2, .h = 3, .m = 128, .n = 128, .d = 64, .dv = 64},
            {.b = 1, .h = 2, .m = 70, .n = 131, .d = 17, .dv = 23},
            {.b = 1, .h = 1, .m = 1, .n = 1, .d = 1, .dv = 1},
            {.b = 1, .h = 2, .m = 5, .n = 7, .d = 8, .dv = 5, .heads_inside = false},
            {.b = 1,
             .h = 2,
             .m = 33,
             .n = 40,
             .d = 16,
             .dv = 16,
             .heads_inside = false,
             .transposed_keys = true},
            {.b = 1, .h = 1, .m = 20, .n = 1030, .d = 32, .dv = 32}});
}

TEST(AttentionTest, Causal) {
  CheckAll({{.b = 1, .h = 2, .m = 128, .n = 128, .d = 64, .dv = 64, .causal = true},
            {.b = 1, .h = 1, .m = 300, .n = 300, .d = 16, .dv = 16, .causal = true},
            {.b = 1, .h = 1, .m = 30, .n = 300, .d = 16, .dv = 16, .causal = true},
            {.b = 2, .h = 2, .m = 190, .n = 400, .d = 48, .dv = 40, .causal = true},
            {.b = 1, .h = 1, .m = 150, .n = 20, .d = 16, .dv = 16, .causal = true},
            {.b = 1, .h = 4, .m = 3, .n = 20, .d = 16, .dv = 16, .kv_repeat = 4, .causal = true}});
}

TEST(AttentionTest, Masks) {
  for (const MaskKind mask : {MaskKind::kAdditivePerKey, MaskKind::kAdditiveFull,
                              MaskKind::kBoolPerKey, MaskKind::kBoolFull}) {
    CheckAll({{.b = 2, .h = 2, .m = 70, .n = 150, .d = 16, .dv = 16, .mask = mask},
              {.b = 2, .h = 2, .m = 1, .n = 150, .d = 16, .dv = 16, .mask = mask},
              {.b = 1, .h = 2, .m = 20, .n = 33, .d = 16, .dv = 20, .causal = true, .mask = mask}});
  }
}

TEST(AttentionTest, RowsWithoutKeysAreZero) {
  CheckAll({{.b = 1, .h = 2, .m = 20, .n = 300, .d = 16, .dv = 16, .mask = MaskKind::kMaskAll},
            {.b = 1, .h = 2, .m = 4, .n = 9, .d = 16, .dv = 16, .mask = MaskKind::kMaskAll}});
}

TEST(AttentionTest, GroupedQueriesAndDecoding) {
  CheckAll({{.b = 2, .h = 8, .m = 1, .n = 200, .d = 64, .dv = 64, .kv_repeat = 4},
            {.b = 1,
             .h = 8,
             .m = 1,
             .n = 77,
             .d = 64,
             .dv = 64,
             .kv_repeat = 2,
             .mask = MaskKind::kAdditivePerKey},
            {.b = 1, .h = 6, .m = 40, .n = 50, .d = 24, .dv = 24, .kv_repeat = 3},
            {.b = 1, .h = 12, .m = 1, .n = 300, .d = 64, .dv = 64}});
}

// With few queries, a task takes every row of a group of heads at once, in chunks of keys that a
// second kernel joins.
TEST(AttentionTest, FewQueries) {
  CheckAll({{.b = 2, .h = 3, .m = 1, .n = 1, .d = 5, .dv = 3},
            {.b = 2, .h = 3, .m = 4, .n = 37, .d = 40, .dv = 24, .heads_inside = false},
            {.b = 1, .h = 2, .m = 1, .n = 1025, .d = 64, .dv = 80},
            {.b = 2, .h = 4, .m = 2, .n = 2500, .d = 32, .dv = 32, .kv_repeat = 2},
            {.b = 1, .h = 4, .m = 3, .n = 50, .d = 16, .dv = 16, .kv_repeat = 2, .causal = true},
            {.b = 1, .h = 1, .m = 2, .n = 40, .d = 300, .dv = 20},
            {.b = 1, .h = 2, .m = 1, .n = 20, .d = 8, .dv = 8, .transposed_keys = true}});
  for (const MaskKind mask : {MaskKind::kAdditivePerKey, MaskKind::kAdditiveFull,
                              MaskKind::kBoolPerKey, MaskKind::kBoolFull, MaskKind::kMaskAll}) {
    CheckAll({{.b = 2, .h = 4, .m = 2, .n = 1500, .d = 24, .dv = 24, .kv_repeat = 2, .mask = mask},
              {.b = 1, .h = 2, .m = 4, .n = 45, .d = 24, .dv = 24, .mask = mask}});
  }
}

TEST(AttentionTest, LongDecodingIsSplitOverKeys) {
  AttentionRun run({.b = 1, .h = 2, .m = 1, .n = 4096, .d = 64, .dv = 64});
  const EmittedKernels kernels = run.Kernels(RunnableLevels().back());
  ASSERT_EQ(kernels.launches.size(), 2u);
  EXPECT_EQ(kernels.launches[0].tasks, 8u);
  EXPECT_EQ(kernels.launches[1].tasks, 2u);
}

// Weights are rounded to bf16 where pairs of bf16 are multiplied: for even, contiguous features.
// The others are computed as f32.
TEST(AttentionTest, PairsOfBF16) {
  constexpr MemoryType kType = MemoryType::kBF16;
  CheckAll(
      {{.b = 2, .h = 3, .m = 128, .n = 128, .d = 64, .dv = 64, .type = kType},
       {.b = 1, .h = 2, .m = 70, .n = 131, .d = 16, .dv = 23, .type = kType},
       {.b = 1, .h = 2, .m = 70, .n = 131, .d = 17, .dv = 23, .type = kType},
       {.b = 1, .h = 2, .m = 9, .n = 7, .d = 8, .dv = 5, .type = kType},
       {.b = 1, .h = 1, .m = 7, .n = 1, .d = 2, .dv = 1, .type = kType},
       {.b = 1, .h = 6, .m = 40, .n = 50, .d = 24, .dv = 24, .kv_repeat = 3, .type = kType},
       {.b = 1, .h = 1, .m = 20, .n = 1030, .d = 32, .dv = 32, .type = kType},
       {.b = 1, .h = 2, .m = 197, .n = 257, .d = 80, .dv = 72, .type = kType},
       {.b = 1, .h = 2, .m = 33, .n = 40, .d = 16, .dv = 16, .type = kType, .heads_inside = false},
       {.b = 1,
        .h = 2,
        .m = 33,
        .n = 40,
        .d = 16,
        .dv = 16,
        .type = kType,
        .heads_inside = false,
        .transposed_keys = true}});
  CheckAll({{.b = 1, .h = 2, .m = 128, .n = 128, .d = 64, .dv = 64, .causal = true, .type = kType},
            {.b = 1, .h = 1, .m = 300, .n = 300, .d = 32, .dv = 16, .causal = true, .type = kType},
            {.b = 1, .h = 1, .m = 30, .n = 300, .d = 16, .dv = 16, .causal = true, .type = kType},
            {.b = 2, .h = 2, .m = 190, .n = 400, .d = 48, .dv = 40, .causal = true, .type = kType},
            {.b = 1, .h = 1, .m = 150, .n = 20, .d = 16, .dv = 16, .causal = true, .type = kType}});
  for (const MaskKind mask : {MaskKind::kAdditivePerKey, MaskKind::kAdditiveFull,
                              MaskKind::kBoolFull, MaskKind::kMaskAll}) {
    CheckAll({{.b = 2, .h = 2, .m = 70, .n = 150, .d = 16, .dv = 16, .mask = mask, .type = kType},
              {.b = 1,
               .h = 2,
               .m = 20,
               .n = 33,
               .d = 32,
               .dv = 20,
               .causal = true,
               .mask = mask,
               .type = kType},
              {.b = 1, .h = 2, .m = 20, .n = 300, .d = 64, .dv = 16, .mask = mask, .type = kType}});
  }
}

TEST(AttentionTest, NarrowTypes) {
  for (const MemoryType type : {MemoryType::kBF16, MemoryType::kF16}) {
    CheckAll({{.b = 1, .h = 2, .m = 70, .n = 131, .d = 24, .dv = 40, .type = type},
              {.b = 1, .h = 4, .m = 1, .n = 131, .d = 64, .dv = 64, .kv_repeat = 4, .type = type}});
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
