// The operands of attention for tests of it and of its gradient, and its weights by definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {

enum class MaskKind { kNone, kAdditivePerKey, kAdditiveFull, kBoolPerKey, kBoolFull, kMaskAll };

struct AttentionCase {
  int64_t b, h, m, n, d, dv;
  int64_t kv_repeat = 1;
  bool causal = false;
  MaskKind mask = MaskKind::kNone;
  MemoryType type = MemoryType::kF32;
  bool heads_inside =
      true;  // memory order [b, m, h, d] as transformers produce it; if false, [b, h, m, d]
  bool transposed_keys = false;
  float keep = 1;  // below 1: weights are dropped
};

inline std::string Name(const AttentionCase& c) {
  std::string name;
  for (const int64_t value : {c.b, c.h, c.m, c.n, c.d, c.dv, c.kv_repeat}) {
    name += std::to_string(value) + " ";
  }
  return name + (c.causal ? "causal " : "") + "mask " + std::to_string(static_cast<int>(c.mask)) +
         " type " + std::to_string(static_cast<int>(c.type));
}

class AttentionOperands {
 public:
  explicit AttentionOperands(const AttentionCase& c) : c_(c) {
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
    if (c.keep < 1) {
      spec_.keep = c.keep;
      spec_.seed = Persistent(11);
      spec_.offset = spec_.base = spec_.seed;
      spec_.offset.offset = 8;
      spec_.base.offset = 16;
    }
    std::memcpy(state_.data(), kState, sizeof(kState));
    spec_.name = "test";
  }

  // Places a tensor [b, heads, rows, cols] in the case's memory order.
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
    // The mask has whole rows without keys, and one whose first hundred keys are masked.
    for (int64_t i = 0; i < mask_->elements(); ++i) {
      const int64_t row = i / c_.n;
      if (row % 3 == 0 || (row == 1 && i % c_.n < 200)) mask_->Set(i, -INFINITY);
    }
  }

  static double At(const TestBuffer& buffer, const int64_t* strides, int64_t offset, int64_t b,
                   int64_t h, int64_t i, int64_t j) {
    return buffer.Get(offset + b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3]);
  }

  // Returns the softmax of the scores of row i; zeros if all keys are hidden. `statistics`, if
  // given, receives the row's maximum and 1 / its sum.
  std::vector<double> Weights(int64_t b, int64_t h, int64_t i,
                              std::pair<double, double>* statistics = nullptr) const {
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
    if (statistics != nullptr) *statistics = {0, 1};
    if (maximum == -INFINITY) return std::vector<double>(c_.n, 0.0);
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - maximum);
    for (double& score : scores) score /= total;
    if (statistics != nullptr) *statistics = {maximum, 1 / total};
    return scores;
  }

  // Returns the factor that dropout applies to weight j of row i: 0 or 1 / keep.
  double Noise(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (c_.keep == 1) return 1;
    const auto place = static_cast<uint64_t>(((b * c_.h + h) * c_.m + i) * c_.n + j);
    const uint64_t block = kState[1] + kState[2] + place / 4;
    const uint32_t bits = PhiloxBlockOf(kState[0], block)[place % 4];
    return UniformFromBits(bits) < c_.keep ? 1 / double(c_.keep) : 0;
  }

  // Returns element j of the value row n that (b, h) reads.
  double Value(int64_t b, int64_t h, int64_t n, int64_t j) const {
    return At(*v_, spec_.v_strides, spec_.v_offset, b, h / c_.kv_repeat, n, j);
  }

 protected:
  AttentionCase c_;
  AttentionSpec spec_;
  std::unique_ptr<TestBuffer> q_, k_, v_, out_, mask_;
  // These are seed, offset and base; the blocks of a task cross 2^32.
  static constexpr uint64_t kState[] = {0x123456789abcdef0, 0xfffffff0, 7};
  TestBuffer state_{MemoryType::kF32, 6};
};

// Runs every case at every level that this host supports.
template <typename Run>
void CheckAtAllLevels(const std::vector<AttentionCase>& cases) {
  for (const AttentionCase& c : cases) {
    for (const IsaLevel isa : TestedLevels()) {
      Run(c).Check(isa);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace hpu::graph_compiler
