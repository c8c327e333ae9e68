#include <gtest/gtest.h>

#include <cmath>

#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {
namespace {

enum class MaskKind { kNone, kAdditivePerKey, kAdditiveFull, kBoolPerKey, kBoolFull, kMaskAll };

struct AttentionCase {
  int64_t b, h, m, n, d, dv;
  int64_t kv_repeat = 1;
  bool causal = false;
  MaskKind mask = MaskKind::kNone;
  MemoryType type = MemoryType::kF32;
  bool heads_inside =
      true;  // memory order [b, m, h, d] as transformers produce it; else [b, h, m, d]
  bool transposed_keys = false;
};

std::string Name(const AttentionCase& c) {
  std::string name;
  for (const int64_t value : {c.b, c.h, c.m, c.n, c.d, c.dv, c.kv_repeat}) {
    name += std::to_string(value) + " ";
  }
  return name + (c.causal ? "causal " : "") + "mask " + std::to_string(static_cast<int>(c.mask)) +
         " type " + std::to_string(static_cast<int>(c.type));
}

class AttentionRun {
 public:
  explicit AttentionRun(const AttentionCase& c) : c_(c) {
    spec_.batch = c.b;
    spec_.heads = c.h;
    spec_.kv_repeat = c.kv_repeat;
    spec_.m = c.m;
    spec_.n = c.n;
    spec_.d = c.d;
    spec_.dv = c.dv;
    spec_.scale = 0.3f;
    spec_.causal = c.causal;
    spec_.type = c.type;
    const int64_t key_heads = c.h / c.kv_repeat;
    q_ = Place(c.h, c.m, c.d, spec_.q_strides, spec_.q_offset);
    k_ = Place(key_heads, c.n, c.d, spec_.k_strides, spec_.k_offset);
    if (c.transposed_keys) {
      const int64_t strides[] = {key_heads * c.n * c.d, c.n * c.d, 1, c.n};
      std::copy_n(strides, 4, spec_.k_strides);
    }
    v_ = Place(key_heads, c.n, c.dv, spec_.v_strides, spec_.v_offset);
    out_ = Place(c.h, c.m, c.dv, spec_.out_strides, spec_.out_offset);
    q_->FillRandom(1, -2, 2);
    k_->FillRandom(2, -2, 2);
    v_->FillRandom(3);
    spec_.q = Persistent(0);
    spec_.k = Persistent(1);
    spec_.v = Persistent(2);
    spec_.out = Persistent(3);
    MakeMask();
    spec_.name = "test";
  }

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
  std::unique_ptr<TestBuffer> Place(int64_t heads, int64_t rows, int64_t cols, int64_t* strides,
                                    int64_t& offset) {
    offset = 3;
    strides[0] = heads * rows * cols;
    strides[1] = c_.heads_inside ? cols : rows * cols;
    strides[2] = c_.heads_inside ? heads * cols : cols;
    strides[3] = 1;
    return std::make_unique<TestBuffer>(c_.type, c_.b * heads * rows * cols + 3);
  }

  void MakeMask() {
    mask_ = std::make_unique<TestBuffer>(MemoryType::kF32, 1);
    if (c_.mask == MaskKind::kNone) return;
    spec_.mask = Persistent(4);
    const bool is_bool = c_.mask == MaskKind::kBoolPerKey || c_.mask == MaskKind::kBoolFull;
    const bool full = c_.mask == MaskKind::kBoolFull || c_.mask == MaskKind::kAdditiveFull ||
                      c_.mask == MaskKind::kMaskAll;
    spec_.mask_type = is_bool ? MemoryType::kBool : MemoryType::kF32;
    const int64_t rows = full ? c_.m : 1;
    mask_ = std::make_unique<TestBuffer>(spec_.mask_type, c_.b * rows * c_.n);
    spec_.mask_strides[0] = rows * c_.n;
    spec_.mask_strides[2] = full ? c_.n : 0;
    spec_.mask_strides[3] = 1;
    std::mt19937 generator(5);
    for (int64_t i = 0; i < mask_->elements(); ++i) {
      const bool keep = generator() % 3 != 0;
      const float additive = keep ? static_cast<float>(generator() % 5) * 0.25f : -INFINITY;
      mask_->Set(i, is_bool ? keep : additive);
    }
    if (c_.mask != MaskKind::kMaskAll) return;
    // Whole rows without keys, and one whose first hundred keys are masked.
    for (int64_t i = 0; i < mask_->elements(); ++i) {
      const int64_t row = i / c_.n;
      if (row % 3 == 0 || (row == 1 && i % c_.n < 200)) mask_->Set(i, -INFINITY);
    }
  }

  static double At(const TestBuffer& buffer, const int64_t* strides, int64_t offset, int64_t b,
                   int64_t h, int64_t i, int64_t j) {
    return buffer.Get(offset + b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3]);
  }

  std::vector<double> Reference(int64_t b, int64_t h, int64_t i) const {
    const int64_t key_head = h / c_.kv_repeat;
    std::vector<double> scores(c_.n);
    double maximum = -INFINITY;
    for (int64_t j = 0; j < c_.n; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < c_.d; ++x) {
        sum += At(*q_, spec_.q_strides, spec_.q_offset, b, h, i, x) *
               At(*k_, spec_.k_strides, spec_.k_offset, b, key_head, j, x);
      }
      scores[j] = sum * spec_.scale;
      if (spec_.mask.kind != OperandRef::Kind::kNull) {
        const double mask = At(*mask_, spec_.mask_strides, 0, b, h, i, j);
        scores[j] += spec_.mask_type == MemoryType::kBool ? (mask != 0 ? 0 : -INFINITY) : mask;
      }
      if (c_.causal && j > i) scores[j] = -INFINITY;
      maximum = std::max(maximum, scores[j]);
    }
    std::vector<double> result(c_.dv, 0.0);
    if (maximum == -INFINITY) return result;
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - maximum);
    for (int64_t j = 0; j < c_.n; ++j) {
      for (int64_t x = 0; x < c_.dv; ++x) {
        result[x] +=
            scores[j] / total * At(*v_, spec_.v_strides, spec_.v_offset, b, key_head, j, x);
      }
    }
    return result;
  }

  AttentionCase c_;
  AttentionSpec spec_;
  std::unique_ptr<TestBuffer> q_, k_, v_, out_, mask_;
};

void CheckAll(const std::vector<AttentionCase>& cases) {
  for (const AttentionCase& c : cases) {
    for (const IsaLevel isa : RunnableLevels()) {
      AttentionRun(c).Check(isa);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

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

// Few queries: every row of a group of heads at once, in chunks of keys that a second kernel joins.
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

TEST(AttentionTest, NarrowTypes) {
  for (const MemoryType type : {MemoryType::kBF16, MemoryType::kF16}) {
    CheckAll({{.b = 1, .h = 2, .m = 70, .n = 131, .d = 24, .dv = 40, .type = type},
              {.b = 1, .h = 4, .m = 1, .n = 131, .d = 64, .dv = 64, .kv_repeat = 4, .type = type}});
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
