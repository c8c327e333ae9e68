// One convolution with random operands, which is compiled, run and compared with a sum in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {

struct ConvCase {
  int64_t n, c, h, w, ko, kh, kw;
  int64_t stride = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  bool nchw_input = false, nchw_output = false, channels_last_weight = false, stable = true;
  MemoryType type = MemoryType::kF32;
  bool bias_relu_residual = false;
  bool in_place_residual = false;  // the residual is the previous content of the output
  bool direct = false;             // ConvSpec::direct
};

inline std::string Name(const ConvCase& c) {
  std::string name;
  for (const int64_t value : {c.n, c.c, c.h, c.w, c.ko, c.kh, c.kw, c.stride, c.pad_h, c.pad_w,
                              c.dilation_h, c.dilation_w, c.groups}) {
    name += std::to_string(value) + " ";
  }
  return name + (c.nchw_input ? "nchw_in " : "") + (c.nchw_output ? "nchw_out " : "") +
         (c.stable ? "stable " : "") + (c.direct ? "direct" : "");
}

// Writes the strides of logical (n, h, w, c).
inline void Strides(bool nchw, int64_t c, int64_t h, int64_t w, int64_t* strides) {
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
    spec_.direct = c.direct;
    spec_.x = Persistent(0);
    spec_.w = Persistent(1);
    spec_.x_type = spec_.w_type = c.type;
    Strides(c.nchw_input, c.c, c.h, c.w, spec_.x_strides);
    const int64_t group_in = c.c / c.groups;
    // The order is (ko, c, kh, kw).
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

  const ConvSpec& spec() const { return spec_; }
  TestBuffer& x() { return *x_; }

  TestBuffer Outputs() const {
    return TestBuffer(MemoryType::kF32, c_.n * spec_.out_h * spec_.out_w * c_.ko);
  }
  CompiledContraction Compile(IsaLevel isa) const {
    return CompiledContraction(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitConv(spec_); });
  }
  std::vector<TestBuffer*> Buffers(TestBuffer& out) const {
    return {x_.get(), w_.get(), &out, bias_.get(), residual_.get()};
  }

  void Check(IsaLevel isa) {
    SCOPED_TRACE(Name(c_) + " " + LevelName(isa));
    CompiledContraction compiled = Compile(isa);
    TestBuffer out = Outputs(), again = Outputs();
    if (c_.in_place_residual) out = again = *residual_;
    compiled.Run(Buffers(out), 1);
    compiled.Run(Buffers(again), 5, true);
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

}  // namespace hpu::graph_compiler
