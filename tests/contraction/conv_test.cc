#include <gtest/gtest.h>

#include <cmath>

#include "tests/contraction/harness.h"

namespace hpu::emulator {
namespace {

struct ConvCase {
  int64_t n, c, h, w, ko, kh, kw;
  int64_t stride = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  bool nchw_input = false, nchw_output = false, channels_last_weight = false, stable = true;
  MemoryType type = MemoryType::kF32;
  bool bias_relu_residual = false;
  bool in_place_residual = false;  // the residual is what the output held before
};

std::string Name(const ConvCase& c) {
  std::string name;
  for (const int64_t value : {c.n, c.c, c.h, c.w, c.ko, c.kh, c.kw, c.stride, c.pad_h, c.pad_w,
                              c.dilation_h, c.dilation_w, c.groups}) {
    name += std::to_string(value) + " ";
  }
  return name + (c.nchw_input ? "nchw_in " : "") + (c.nchw_output ? "nchw_out " : "") +
         (c.stable ? "stable" : "");
}

// Strides of logical (n, h, w, c).
void Strides(bool nchw, int64_t c, int64_t h, int64_t w, int64_t* strides) {
  strides[0] = c * h * w;
  strides[1] = nchw ? w : w * c;
  strides[2] = nchw ? 1 : c;
  strides[3] = nchw ? h * w : 1;
}

class ConvRun {
 public:
  explicit ConvRun(const ConvCase& c) : c_(c) {
    spec_.batch = c.n;
    spec_.in_h = c.h;
    spec_.in_w = c.w;
    spec_.in_c = c.c;
    spec_.out_h = (c.h + 2 * c.pad_h - (c.kh - 1) * c.dilation_h - 1) / c.stride + 1;
    spec_.out_w = (c.w + 2 * c.pad_w - (c.kw - 1) * c.dilation_w - 1) / c.stride + 1;
    spec_.out_c = c.ko;
    spec_.kernel_h = c.kh;
    spec_.kernel_w = c.kw;
    spec_.stride_h = spec_.stride_w = c.stride;
    spec_.dilation_h = c.dilation_h;
    spec_.dilation_w = c.dilation_w;
    spec_.pad_top = c.pad_h;
    spec_.pad_left = c.pad_w;
    spec_.groups = c.groups;
    spec_.x = Persistent(0);
    spec_.w = Persistent(1);
    spec_.x_type = spec_.w_type = c.type;
    Strides(c.nchw_input, c.c, c.h, c.w, spec_.x_strides);
    const int64_t group_in = c.c / c.groups;
    // (ko, c, kh, kw)
    const int64_t dense[] = {group_in * c.kh * c.kw, c.kh * c.kw, c.kw, 1};
    const int64_t last[] = {group_in * c.kh * c.kw, 1, c.kw * group_in, group_in};
    std::copy_n(c.channels_last_weight ? last : dense, 4, spec_.w_strides);
    spec_.x_offset = 3;
    spec_.w_offset = 1;
    spec_.w_stable = c.stable;
    x_ = std::make_unique<TestBuffer>(c.type, c.n * c.c * c.h * c.w + 3);
    w_ = std::make_unique<TestBuffer>(c.type, c.ko * group_in * c.kh * c.kw + 1);
    spec_.w_buffer_bytes = w_->size_bytes();
    bias_ = std::make_unique<TestBuffer>(MemoryType::kF32, c.ko);
    residual_ =
        std::make_unique<TestBuffer>(MemoryType::kF32, c.n * spec_.out_h * spec_.out_w * c.ko);
    x_->FillRandom(1);
    w_->FillRandom(2);
    bias_->FillRandom(3);
    residual_->FillRandom(4);
    Strides(c.nchw_output, c.ko, spec_.out_h, spec_.out_w, y_strides_);
    spec_.epilogue = StoreBody(MemoryType::kF32, std::vector<int64_t>(y_strides_, y_strides_ + 4));
    spec_.epilogue_operands = {Persistent(2), Persistent(3), Persistent(4)};
    if (c.bias_relu_residual) AddBiasReluResidual();
    if (c.in_place_residual) spec_.epilogue_operands[2] = Persistent(2);
    spec_.name = "test";
  }

  double Reference(int64_t n, int64_t ho, int64_t wo, int64_t ko) const {
    const int64_t group_in = c_.c / c_.groups;
    const int64_t first = ko / (c_.ko / c_.groups) * group_in;
    double sum = 0;
    for (int64_t kh = 0; kh < c_.kh; ++kh) {
      for (int64_t kw = 0; kw < c_.kw; ++kw) {
        const int64_t h = ho * c_.stride - c_.pad_h + kh * c_.dilation_h;
        const int64_t w = wo * c_.stride - c_.pad_w + kw * c_.dilation_w;
        if (h < 0 || h >= c_.h || w < 0 || w >= c_.w) continue;
        for (int64_t c = 0; c < group_in; ++c) {
          const int64_t* xs = spec_.x_strides;
          const int64_t* ws = spec_.w_strides;
          sum += static_cast<double>(
                     x_->Get(3 + n * xs[0] + h * xs[1] + w * xs[2] + (first + c) * xs[3])) *
                 w_->Get(1 + ko * ws[0] + c * ws[1] + kh * ws[2] + kw * ws[3]);
        }
      }
    }
    if (!c_.bias_relu_residual) return sum;
    return std::max(0.0, sum + bias_->Get(ko) + residual_->Get(OutIndex(n, ho, wo, ko)));
  }

  int64_t OutIndex(int64_t n, int64_t ho, int64_t wo, int64_t ko) const {
    return n * y_strides_[0] + ho * y_strides_[1] + wo * y_strides_[2] + ko * y_strides_[3];
  }

  void Check(IsaLevel isa) {
    SCOPED_TRACE(Name(c_) + " " + LevelName(isa));
    CompiledContraction compiled(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitConv(spec_); });
    const int64_t size = c_.n * spec_.out_h * spec_.out_w * c_.ko;
    TestBuffer out(MemoryType::kF32, size), again(MemoryType::kF32, size);
    if (c_.in_place_residual) out = again = *residual_;
    compiled.Run({x_.get(), w_.get(), &out, bias_.get(), residual_.get()}, 1);
    compiled.Run({x_.get(), w_.get(), &again, bias_.get(), residual_.get()}, 5, true);
    ASSERT_TRUE(out.GuardsIntact());
    ASSERT_EQ(std::memcmp(out.data(), again.data(), out.size_bytes()), 0) << "split changes bits";
    const double terms = static_cast<double>(c_.c / c_.groups * c_.kh * c_.kw);
    for (int64_t n = 0; n < c_.n; ++n) {
      for (int64_t h = 0; h < spec_.out_h; ++h) {
        for (int64_t w = 0; w < spec_.out_w; ++w) {
          for (int64_t k = 0; k < c_.ko; ++k) {
            const double expected = Reference(n, h, w, k);
            ASSERT_NEAR(out.Get(OutIndex(n, h, w, k)), expected,
                        2e-7 * (terms + 8) * (1 + std::fabs(expected)))
                << n << " " << h << " " << w << " " << k;
          }
        }
      }
    }
  }

 private:
  void AddBiasReluResidual() {
    Body& body = spec_.epilogue;
    const auto load = [&](uint32_t operand, std::vector<int64_t> strides) {
      BodyOp op = MakeOp(Opcode::kLoad);
      op.access.operand = operand;
      op.access.strides = std::move(strides);
      body.ops.push_back(op);
      return static_cast<uint32_t>(body.ops.size() - 1);
    };
    const auto binary = [&](Opcode code, uint32_t x, uint32_t y) {
      body.ops.push_back(MakeOp(code, {x, y}));
      return static_cast<uint32_t>(body.ops.size() - 1);
    };
    const uint32_t bias = load(1, {0, 0, 0, 1});
    const uint32_t residual = load(2, std::vector<int64_t>(y_strides_, y_strides_ + 4));
    body.ops.push_back(MakeOp(Opcode::kConstF32));
    const auto zero = static_cast<uint32_t>(body.ops.size() - 1);
    const uint32_t sum = binary(Opcode::kAdd, binary(Opcode::kAdd, 0, bias), residual);
    body.stores[0].value = binary(Opcode::kMax, sum, zero);
  }

  ConvCase c_;
  ConvSpec spec_;
  int64_t y_strides_[4] = {};
  std::unique_ptr<TestBuffer> x_, w_, bias_, residual_;
};

void CheckAll(const std::vector<ConvCase>& cases) {
  for (const ConvCase& c : cases) {
    for (const IsaLevel isa : TestedLevels()) {
      ConvRun(c).Check(isa);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(ConvTest, ThreeByThree) {
  CheckAll({{.n = 1, .c = 16, .h = 9, .w = 11, .ko = 24, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
            {.n = 2,
             .c = 5,
             .h = 7,
             .w = 7,
             .ko = 33,
             .kh = 3,
             .kw = 3,
             .stride = 2,
             .pad_h = 1,
             .pad_w = 1},
            {.n = 1,
             .c = 32,
             .h = 30,
             .w = 31,
             .ko = 40,
             .kh = 3,
             .kw = 3,
             .pad_h = 1,
             .pad_w = 1,
             .channels_last_weight = true,
             .bias_relu_residual = true},
            {.n = 1, .c = 20, .h = 12, .w = 12, .ko = 16, .kh = 3, .kw = 3},
            {.n = 1,
             .c = 8,
             .h = 31,
             .w = 33,
             .ko = 24,
             .kh = 3,
             .kw = 3,
             .pad_h = 1,
             .pad_w = 1,
             .bias_relu_residual = true,
             .in_place_residual = true},
            {.n = 1,
             .c = 4,
             .h = 5,
             .w = 331,
             .ko = 8,
             .kh = 3,
             .kw = 3,
             .pad_h = 1,
             .pad_w = 1,
             .bias_relu_residual = true,
             .in_place_residual = true},
            {.n = 1, .c = 4, .h = 12, .w = 12, .ko = 16, .kh = 3, .kw = 3, .stable = false}});
}

TEST(ConvTest, FirstLayers) {
  CheckAll({{.n = 1,
             .c = 3,
             .h = 32,
             .w = 32,
             .ko = 64,
             .kh = 7,
             .kw = 7,
             .stride = 2,
             .pad_h = 3,
             .pad_w = 3,
             .nchw_input = true,
             .bias_relu_residual = true},
            {.n = 1, .c = 1, .h = 28, .w = 28, .ko = 6, .kh = 5, .kw = 5},
            {.n = 2,
             .c = 3,
             .h = 32,
             .w = 32,
             .ko = 48,
             .kh = 16,
             .kw = 16,
             .stride = 16,
             .nchw_input = true,
             .nchw_output = true}});
}

TEST(ConvTest, DilationAndUnevenKernels) {
  CheckAll(
      {{.n = 1,
        .c = 8,
        .h = 15,
        .w = 13,
        .ko = 16,
        .kh = 3,
        .kw = 3,
        .pad_h = 2,
        .pad_w = 2,
        .dilation_h = 2,
        .dilation_w = 2},
       {.n = 1, .c = 17, .h = 15, .w = 13, .ko = 9, .kh = 1, .kw = 5, .pad_w = 2, .dilation_w = 1},
       {.n = 1, .c = 18, .h = 15, .w = 13, .ko = 9, .kh = 4, .kw = 2, .dilation_w = 3},
       {.n = 1, .c = 3, .h = 1, .w = 40, .ko = 9, .kh = 1, .kw = 3, .pad_w = 1}});
}

TEST(ConvTest, Pointwise) {
  CheckAll(
      {{.n = 2, .c = 24, .h = 7, .w = 5, .ko = 40, .kh = 1, .kw = 1, .bias_relu_residual = true},
       {.n = 2, .c = 24, .h = 7, .w = 5, .ko = 40, .kh = 1, .kw = 1, .nchw_input = true},
       {.n = 2, .c = 24, .h = 7, .w = 5, .ko = 40, .kh = 1, .kw = 1, .nchw_output = true},
       {.n = 1, .c = 32, .h = 14, .w = 14, .ko = 48, .kh = 1, .kw = 1, .stride = 2},
       {.n = 1, .c = 8, .h = 9, .w = 9, .ko = 7, .kh = 1, .kw = 1, .pad_h = 1, .pad_w = 1}});
}

TEST(ConvTest, Groups) {
  CheckAll({{.n = 1,
             .c = 32,
             .h = 9,
             .w = 9,
             .ko = 64,
             .kh = 3,
             .kw = 3,
             .pad_h = 1,
             .pad_w = 1,
             .groups = 4,
             .bias_relu_residual = true},
            {.n = 1, .c = 32, .h = 9, .w = 9, .ko = 32, .kh = 3, .kw = 3, .groups = 2},
            {.n = 1, .c = 6, .h = 9, .w = 9, .ko = 12, .kh = 3, .kw = 3, .groups = 6}});
}

TEST(ConvTest, Depthwise) {
  CheckAll({{.n = 1,
             .c = 40,
             .h = 14,
             .w = 14,
             .ko = 40,
             .kh = 3,
             .kw = 3,
             .pad_h = 1,
             .pad_w = 1,
             .groups = 40,
             .bias_relu_residual = true},
            {.n = 2,
             .c = 5,
             .h = 14,
             .w = 17,
             .ko = 5,
             .kh = 5,
             .kw = 5,
             .stride = 2,
             .pad_h = 2,
             .pad_w = 2,
             .groups = 5},
            {.n = 1,
             .c = 33,
             .h = 30,
             .w = 30,
             .ko = 33,
             .kh = 3,
             .kw = 3,
             .pad_h = 1,
             .pad_w = 1,
             .groups = 33,
             .nchw_input = true,
             .nchw_output = true,
             .stable = false}});
}

TEST(ConvTest, NarrowTypes) {
  for (const MemoryType type : {MemoryType::kBF16, MemoryType::kF16}) {
    ConvCase dense = {.n = 1, .c = 16, .h = 9, .w = 11, .ko = 64, .kh = 3, .kw = 3};
    dense.pad_h = dense.pad_w = 1;
    dense.type = type;
    ConvCase depthwise = dense;
    depthwise.c = depthwise.ko = depthwise.groups = 20;
    CheckAll({dense,
              depthwise,
              {.n = 1, .c = 20, .h = 9, .w = 11, .ko = 33, .kh = 1, .kw = 1, .type = type}});
  }
}

// From a strip, in place, in groups, and what has no pairs (odd channels, channels that lie apart).
TEST(ConvTest, PairsOfChannels) {
  ConvCase three = {.n = 2, .c = 32, .h = 10, .w = 7, .ko = 48, .kh = 3, .kw = 3};
  three.stride = 2;
  three.pad_h = three.pad_w = 1;
  three.type = MemoryType::kBF16;
  ConvCase valid = three, grouped = three, odd = three, apart = three, dilated = three;
  valid.pad_h = valid.pad_w = 0;
  valid.stride = 1;
  grouped.groups = 4;
  odd.c = 33;
  apart.nchw_input = true;
  dilated.dilation_w = 2;
  dilated.stable = false;
  CheckAll({three, valid, grouped, odd, apart, dilated});
}

// The strip joins few channels in pairs, an odd one with a zero, wherever they lie.
TEST(ConvTest, JoinedChannels) {
  std::vector<ConvCase> cases;
  for (const int64_t channels : {1, 2, 3, 4, 5, 7, 8}) {
    for (const bool nchw : {true, false}) {
      ConvCase c = {.n = 2, .c = channels, .h = 21, .w = 37, .ko = 33, .kh = 3, .kw = 5};
      c.stride = c.pad_w = 2;
      c.pad_h = 1;
      c.nchw_input = c.channels_last_weight = c.stable = nchw;
      c.type = MemoryType::kBF16;
      cases.push_back(c);
    }
  }
  CheckAll(cases);
}

TEST(ConvTest, RefusesWhatItCannotDo) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  ContractionEmitter emitter(module);
  ConvSpec spec;
  spec.name = "conv7";
  spec.batch = spec.out_h = spec.out_w = spec.in_h = spec.in_w = 1;
  spec.kernel_h = spec.kernel_w = 1;
  spec.in_c = 6;
  spec.out_c = 4;
  spec.groups = 4;
  EXPECT_EQ(ToText(emitter.EmitConv(spec).status()),
            "INVALID_ARGUMENT: conv7: 4 groups do not divide 6 input and 4 output channels");
  spec.groups = 1;
  spec.x_type = MemoryType::kI8;
  EXPECT_EQ(ToText(emitter.EmitConv(spec).status()),
            "UNIMPLEMENTED: conv7: convolution operands must be f32, bf16 or f16");
}

}  // namespace
}  // namespace hpu::emulator
