// Attention's gradient, run after the forward that saves its statistics, is compared with the
// definition.
#include <gtest/gtest.h>

#include "tests/contraction/attention_run.h"

namespace hpu::graph_compiler {
namespace {

class BackwardRun : public AttentionOperands {
 public:
  explicit BackwardRun(const AttentionCase& c) : AttentionOperands(c) {
    const int64_t key_heads = c.h / c.kv_repeat;
    maximum_ = std::make_unique<TestBuffer>(MemoryType::kF32, c.b * c.h * c.m);
    inverse_ = std::make_unique<TestBuffer>(MemoryType::kF32, c.b * c.h * c.m);
    spec_.maximum = Persistent(5);
    spec_.inverse_sum = Persistent(6);
    gradient_.out_gradient = Persistent(7);
    gradient_.q_gradient = Persistent(8);
    gradient_.k_gradient = Persistent(9);
    gradient_.v_gradient = Persistent(10);
    dout_ = Place(c.h, c.m, c.dv, gradient_.out_gradient_strides, gradient_.out_gradient_offset);
    dq_ = Place(c.h, c.m, c.d, gradient_.q_gradient_strides, gradient_.q_gradient_offset);
    dk_ = Place(key_heads, c.n, c.d, gradient_.k_gradient_strides, gradient_.k_gradient_offset);
    dv_ = Place(key_heads, c.n, c.dv, gradient_.v_gradient_strides, gradient_.v_gradient_offset);
    dout_->FillRandom(4);
  }

  CompiledContraction Compile(IsaLevel isa) {
    gradient_.forward = spec_;
    return CompiledContraction(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitAttentionBackward(gradient_); });
  }

  void Check(IsaLevel isa) {
    SCOPED_TRACE(Name(c_) + " " + LevelName(isa));
    CompiledContraction forward(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitAttention(spec_); });
    forward.Run(Buffers(*dq_, *dk_, *dv_), 2);
    for (const TestBuffer* buffer : {out_.get(), maximum_.get(), inverse_.get()}) {
      ASSERT_TRUE(buffer->GuardsIntact());
    }
    CompiledContraction backward = Compile(isa);
    TestBuffer dq(c_.type, dq_->elements()), dk(c_.type, dk_->elements()),
        dv(c_.type, dv_->elements());
    backward.Run(Buffers(*dq_, *dk_, *dv_), 1);
    backward.Run(Buffers(dq, dk, dv), 3, true);
    ExpectSame(*dq_, dq);
    ExpectSame(*dk_, dk);
    ExpectSame(*dv_, dv);
    if (testing::Test::HasFatalFailure()) return;
    Compare();
  }

 private:
  std::vector<TestBuffer*> Buffers(TestBuffer& dq, TestBuffer& dk, TestBuffer& dv) {
    return {q_.get(),       k_.get(),    v_.get(), out_.get(), mask_.get(), maximum_.get(),
            inverse_.get(), dout_.get(), &dq,      &dk,        &dv,         &state_};
  }

  static void ExpectSame(const TestBuffer& one, TestBuffer& other) {
    ASSERT_TRUE(one.GuardsIntact());
    ASSERT_TRUE(other.GuardsIntact());
    for (int64_t i = 3; i < one.elements(); ++i) ASSERT_EQ(one.Get(i), other.Get(i)) << i;
  }

  void Compare() {
    const int64_t key_heads = c_.h / c_.kv_repeat;
    std::vector<double> dq(c_.b * c_.h * c_.m * c_.d), dk(c_.b * key_heads * c_.n * c_.d),
        dv(c_.b * key_heads * c_.n * c_.dv);
    for (int64_t b = 0; b < c_.b; ++b) {
      for (int64_t h = 0; h < c_.h; ++h) {
        for (int64_t i = 0; i < c_.m; ++i) AddRow(b, h, i, dq, dk, dv);
      }
    }
    if (testing::Test::HasFatalFailure()) return;
    ExpectNear("dq", *dq_, gradient_.q_gradient_strides, gradient_.q_gradient_offset, c_.h, c_.m,
               c_.d, dq);
    ExpectNear("dk", *dk_, gradient_.k_gradient_strides, gradient_.k_gradient_offset, key_heads,
               c_.n, c_.d, dk);
    ExpectNear("dv", *dv_, gradient_.v_gradient_strides, gradient_.v_gradient_offset, key_heads,
               c_.n, c_.dv, dv);
  }

  // Adds the contribution of row i of (b, h) to the gradients; checks its statistics on the way.
  void AddRow(int64_t b, int64_t h, int64_t i, std::vector<double>& dq, std::vector<double>& dk,
              std::vector<double>& dv) {
    std::pair<double, double> statistics;
    const std::vector<double> p = Weights(b, h, i, &statistics);
    const int64_t place = (b * c_.h + h) * c_.m + i;
    ASSERT_NEAR(maximum_->Get(place), statistics.first, 1e-4) << place;
    ASSERT_NEAR(inverse_->Get(place), statistics.second, 1e-4) << place;
    const int64_t key_head = b * (c_.h / c_.kv_repeat) + h / c_.kv_repeat;
    std::vector<double> g(c_.dv);
    for (int64_t x = 0; x < c_.dv; ++x) {
      g[x] = At(*dout_, gradient_.out_gradient_strides, gradient_.out_gradient_offset, b, h, i, x);
    }
    for (int64_t x = 0; x < c_.dv; ++x) {
      double expected = 0;
      for (int64_t j = 0; j < c_.n; ++j) expected += p[j] * Noise(b, h, i, j) * Value(b, h, j, x);
      ASSERT_NEAR(At(*out_, spec_.out_strides, spec_.out_offset, b, h, i, x), expected,
                  Tolerance() * (1 + std::fabs(expected)))
          << place << " " << x;
    }
    std::vector<double> dp(c_.n);
    double dot = 0;
    for (int64_t j = 0; j < c_.n; ++j) {
      for (int64_t x = 0; x < c_.dv; ++x) {
        dp[j] += g[x] * Value(b, h, j, x);
        dv[(key_head * c_.n + j) * c_.dv + x] += p[j] * Noise(b, h, i, j) * g[x];
      }
      dp[j] *= Noise(b, h, i, j);
      dot += p[j] * dp[j];
    }
    for (int64_t j = 0; j < c_.n; ++j) {
      const double slope = p[j] * (dp[j] - dot) * spec_.scale;
      for (int64_t x = 0; x < c_.d; ++x) {
        dq[place * c_.d + x] +=
            slope * At(*k_, spec_.k_strides, spec_.k_offset, b, h / c_.kv_repeat, j, x);
        dk[(key_head * c_.n + j) * c_.d + x] +=
            slope * At(*q_, spec_.q_strides, spec_.q_offset, b, h, i, x);
      }
    }
  }

  void ExpectNear(const char* name, const TestBuffer& buffer, const int64_t* strides,
                  int64_t offset, int64_t heads, int64_t rows, int64_t cols,
                  const std::vector<double>& expected) {
    const double tolerance = Tolerance();
    size_t at = 0;
    for (int64_t b = 0; b < c_.b; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < cols; ++j, ++at) {
            ASSERT_NEAR(At(buffer, strides, offset, b, h, i, j), expected[at],
                        tolerance * (1 + std::fabs(expected[at])))
                << name << " " << b << " " << h << " " << i << " " << j;
          }
        }
      }
    }
  }

  double Tolerance() const { return c_.type == MemoryType::kF32 ? 1e-4 : 0.03; }

  AttentionBackwardSpec gradient_;
  std::unique_ptr<TestBuffer> maximum_, inverse_, dout_, dq_, dk_, dv_;
};

void CheckAll(const std::vector<AttentionCase>& cases) { CheckAtAllLevels<BackwardRun>(cases); }

TEST(AttentionBackwardTest, Plain) {
  CheckAll({{.b = 2, .h = 3, .m = 128, .n = 128, .d = 64, .dv = 64},
            {.b = 3, .h = 6, .m = 70, .n = 131, .d = 17, .dv = 23},
            {.b = 1, .h = 1, .m = 1, .n = 1, .d = 1, .dv = 1},
            {.b = 1, .h = 2, .m = 5, .n = 7, .d = 8, .dv = 5, .heads_inside = false},
            {.b = 4,
             .h = 5,
             .m = 33,
             .n = 40,
             .d = 16,
             .dv = 16,
             .heads_inside = false,
             .transposed_keys = true},
            {.b = 1, .h = 1, .m = 20, .n = 1030, .d = 32, .dv = 48}});
}

TEST(AttentionBackwardTest, Causal) {
  CheckAll({{.b = 4, .h = 4, .m = 128, .n = 128, .d = 64, .dv = 64, .causal = true},
            {.b = 1, .h = 1, .m = 300, .n = 300, .d = 16, .dv = 16, .causal = true},
            {.b = 1, .h = 1, .m = 30, .n = 300, .d = 16, .dv = 16, .causal = true},
            {.b = 1, .h = 1, .m = 150, .n = 20, .d = 16, .dv = 16, .causal = true}});
}

TEST(AttentionBackwardTest, Masks) {
  for (const MaskKind mask : {MaskKind::kAdditivePerKey, MaskKind::kAdditiveFull,
                              MaskKind::kBoolPerKey, MaskKind::kBoolFull}) {
    CheckAll({{.b = 2, .h = 2, .m = 70, .n = 150, .d = 16, .dv = 16, .mask = mask},
              {.b = 2, .h = 2, .m = 1, .n = 150, .d = 16, .dv = 16, .mask = mask},
              {.b = 1, .h = 2, .m = 20, .n = 33, .d = 16, .dv = 20, .causal = true, .mask = mask}});
  }
}

TEST(AttentionBackwardTest, RowsWithoutKeysGiveNothing) {
  CheckAll({{.b = 1, .h = 2, .m = 20, .n = 300, .d = 16, .dv = 16, .mask = MaskKind::kMaskAll},
            {.b = 1, .h = 2, .m = 4, .n = 9, .d = 16, .dv = 16, .mask = MaskKind::kMaskAll}});
}

TEST(AttentionBackwardTest, GroupedQueries) {
  CheckAll({{.b = 2, .h = 8, .m = 3, .n = 20, .d = 16, .dv = 16, .kv_repeat = 4, .causal = true},
            {.b = 1, .h = 6, .m = 80, .n = 50, .d = 24, .dv = 24, .kv_repeat = 3},
            {.b = 16, .h = 4, .m = 10, .n = 50, .d = 24, .dv = 24, .kv_repeat = 2}});
}

TEST(AttentionBackwardTest, NarrowTypes) {
  for (const MemoryType type : {MemoryType::kBF16, MemoryType::kF16}) {
    CheckAll({{.b = 1, .h = 2, .m = 70, .n = 131, .d = 24, .dv = 40, .type = type}});
  }
}

// Weights and slopes are rounded to bf16 where pairs of bf16 are multiplied: for even, contiguous
// features. The others are computed as f32. The cases have remainders of every kind: of tiles and
// blocks of keys, of queries, of features.
TEST(AttentionBackwardTest, PairsOfBF16) {
  constexpr MemoryType kType = MemoryType::kBF16;
  CheckAll({{.b = 2, .h = 2, .m = 128, .n = 128, .d = 64, .dv = 64, .type = kType},
            {.b = 1, .h = 2, .m = 70, .n = 131, .d = 16, .dv = 24, .type = kType},
            {.b = 1, .h = 2, .m = 70, .n = 131, .d = 16, .dv = 23, .type = kType},
            {.b = 1, .h = 2, .m = 9, .n = 7, .d = 8, .dv = 6, .type = kType},
            {.b = 1, .h = 1, .m = 1, .n = 1, .d = 32, .dv = 16, .type = kType},
            {.b = 1, .h = 6, .m = 40, .n = 50, .d = 24, .dv = 40, .kv_repeat = 3, .type = kType},
            {.b = 1, .h = 1, .m = 90, .n = 257, .d = 80, .dv = 72, .type = kType},
            {.b = 1,
             .h = 2,
             .m = 33,
             .n = 40,
             .d = 16,
             .dv = 16,
             .type = kType,
             .heads_inside = false}});
  CheckAll({{.b = 1, .h = 2, .m = 128, .n = 128, .d = 64, .dv = 64, .causal = true, .type = kType},
            {.b = 1, .h = 1, .m = 141, .n = 300, .d = 32, .dv = 16, .causal = true, .type = kType},
            {.b = 1, .h = 1, .m = 150, .n = 20, .d = 16, .dv = 16, .causal = true, .type = kType}});
  for (const MaskKind mask : {MaskKind::kAdditivePerKey, MaskKind::kAdditiveFull,
                              MaskKind::kBoolFull, MaskKind::kMaskAll}) {
    CheckAll({{.b = 1, .h = 2, .m = 70, .n = 150, .d = 16, .dv = 16, .mask = mask, .type = kType},
              {.b = 1,
               .h = 2,
               .m = 20,
               .n = 33,
               .d = 32,
               .dv = 20,
               .causal = true,
               .mask = mask,
               .type = kType}});
  }
}

// The cases have lengths whose rows begin with a Philox block and others that do not, blocks of
// keys with a remainder after them, heads that share keys, and causal rows.
TEST(AttentionBackwardTest, Dropout) {
  CheckAll(
      {{.b = 2, .h = 3, .m = 70, .n = 128, .d = 16, .dv = 16, .keep = 0.9f},
       {.b = 1, .h = 2, .m = 9, .n = 402, .d = 8, .dv = 5, .heads_inside = false, .keep = 0.3f},
       {.b = 1, .h = 6, .m = 1, .n = 54, .d = 8, .dv = 8, .kv_repeat = 3, .keep = 0.9f},
       {.b = 1,
        .h = 2,
        .m = 70,
        .n = 131,
        .d = 24,
        .dv = 8,
        .type = MemoryType::kBF16,
        .keep = 0.9f}});
  for (const int64_t n : {140, 141}) {
    AttentionCase c{.b = 1, .h = 2, .m = n, .n = n, .d = 8, .dv = 8, .causal = true, .keep = 0.8f};
    c.mask = MaskKind::kBoolFull;
    CheckAll({c});
  }
}

TEST(AttentionBackwardTest, FewKeyHeadsAreSplitOverQueries) {
  BackwardRun few({.b = 1, .h = 2, .m = 640, .n = 64, .d = 16, .dv = 16});
  const IsaLevel isa = RunnableLevels().back();
  const std::vector<KernelLaunch> split = few.Compile(isa).kernels().launches;
  ASSERT_EQ(split.size(), 2u);
  EXPECT_EQ(split[0].tasks, 16u);
  BackwardRun many({.b = 8, .h = 2, .m = 640, .n = 64, .d = 16, .dv = 16});
  const std::vector<KernelLaunch> whole = many.Compile(isa).kernels().launches;
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].tasks, 16u);
}

}  // namespace
}  // namespace hpu::graph_compiler
