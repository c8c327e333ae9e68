#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/contraction/conv_run.h"

namespace hpu::graph_compiler {
namespace {

// The forward convolution's sizes are a ConvCase. Its `nchw_output` is the layout of dy, and
// `channels_last_weight` asks for a weight [r, s, c, ko]; otherwise it is PyTorch's [ko, c, r, s].
class GradientRun {
 public:
  explicit GradientRun(const ConvCase& c) : c_(c) {
    ConvSpec& conv = spec_.conv;
    conv = ConvRun(c).spec();
    Strides(c.nchw_output, c.ko, conv.out_h, conv.out_w, spec_.dy_strides);
    spec_.dy = Persistent(1);
    spec_.dy_type = c.type;
    spec_.dy_offset = 2;
    group_in_ = c.c / c.groups;
    const int64_t dense[] = {c.kw, 1, c.kh * c.kw, group_in_ * c.kh * c.kw};
    const int64_t last[] = {c.kw * group_in_ * c.ko, group_in_ * c.ko, c.ko, 1};
    std::copy_n(c.channels_last_weight ? last : dense, 4, w_strides_);
    conv.epilogue = StoreBody(MemoryType::kF32, std::vector<int64_t>(w_strides_, w_strides_ + 4));
    conv.epilogue_operands = {Persistent(2)};
    x_ = std::make_unique<TestBuffer>(c.type, c.n * c.c * c.h * c.w + 3);
    dy_ = std::make_unique<TestBuffer>(c.type, c.n * c.ko * conv.out_h * conv.out_w + 2);
    x_->FillRandom(1);
    dy_->FillRandom(2);
  }

  const WeightGradientSpec& spec() const { return spec_; }
  WeightGradientPlan Plan(IsaLevel isa) const {
    return PlanWeightGradient(TargetInfoFor(isa), spec_);
  }

  double Reference(int64_t r, int64_t s, int64_t c, int64_t ko) const {
    const ConvSpec& conv = spec_.conv;
    const int64_t channel = ko / (c_.ko / c_.groups) * group_in_ + c;
    double sum = 0;
    for (int64_t n = 0; n < c_.n; ++n) {
      for (int64_t y = 0; y < conv.out_h; ++y) {
        for (int64_t x = 0; x < conv.out_w; ++x) {
          const int64_t h = y * c_.stride - c_.pad_h + r * c_.dilation_h;
          const int64_t w = x * c_.stride - c_.pad_w + s * c_.dilation_w;
          if (h < 0 || h >= c_.h || w < 0 || w >= c_.w) continue;
          const int64_t* xs = conv.x_strides;
          const int64_t* ys = spec_.dy_strides;
          sum += static_cast<double>(
                     x_->Get(3 + n * xs[0] + h * xs[1] + w * xs[2] + channel * xs[3])) *
                 dy_->Get(2 + n * ys[0] + y * ys[1] + x * ys[2] + ko * ys[3]);
        }
      }
    }
    return sum;
  }

  void Check(IsaLevel isa) {
    SCOPED_TRACE(Name(c_) + " " + LevelName(isa));
    CompiledContraction compiled(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitWeightGradient(spec_); });
    const int64_t elements = c_.ko * group_in_ * c_.kh * c_.kw;
    TestBuffer out(MemoryType::kF32, elements), again(MemoryType::kF32, elements);
    compiled.Run({x_.get(), dy_.get(), &out}, 1);
    compiled.Run({x_.get(), dy_.get(), &again}, 5, true);
    ASSERT_TRUE(out.GuardsIntact());
    ASSERT_EQ(std::memcmp(out.data(), again.data(), out.size_bytes()), 0) << "split changes bits";
    const double terms = static_cast<double>(c_.n * spec_.conv.out_h * spec_.conv.out_w);
    for (int64_t r = 0; r < c_.kh; ++r) {
      for (int64_t s = 0; s < c_.kw; ++s) {
        for (int64_t c = 0; c < group_in_; ++c) {
          for (int64_t k = 0; k < c_.ko; ++k) {
            const double expected = Reference(r, s, c, k);
            const int64_t at =
                r * w_strides_[0] + s * w_strides_[1] + c * w_strides_[2] + k * w_strides_[3];
            ASSERT_NEAR(out.Get(at), expected, 1e-7 * (terms + 8) * (1 + std::fabs(expected)))
                << r << " " << s << " " << c << " " << k;
          }
        }
      }
    }
  }

 private:
  ConvCase c_;
  WeightGradientSpec spec_;
  int64_t group_in_ = 0;
  int64_t w_strides_[4] = {};
  std::unique_ptr<TestBuffer> x_, dy_;
};

// Runs the cases in both layouts of the operands and of the weight, at all levels.
void CheckAll(const std::vector<ConvCase>& cases) {
  for (ConvCase c : cases) {
    for (const int layout : {0, 1, 2}) {
      c.nchw_input = layout == 1;
      c.nchw_output = layout >= 1;
      c.channels_last_weight = layout != 1;
      for (const IsaLevel isa : TestedLevels()) {
        GradientRun(c).Check(isa);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

ConvCase Square(int64_t channels, int64_t size, int64_t out_channels, int64_t kernel,
                int64_t batch = 1) {
  ConvCase c = {.n = batch,
                .c = channels,
                .h = size,
                .w = size,
                .ko = out_channels,
                .kh = kernel,
                .kw = kernel};
  c.pad_h = c.pad_w = kernel / 2;
  return c;
}

ConvCase Grouped(ConvCase c, int64_t groups) {
  c.groups = groups;
  return c;
}

ConvCase Strided(ConvCase c, int64_t stride) {
  c.stride = stride;
  return c;
}

TEST(WeightGradientTest, ThreeByThree) {
  ConvCase wide = Square(13, 9, 37, 3, 2);
  wide.w = 70;
  CheckAll(
      {Square(16, 9, 24, 3), Strided(Square(5, 8, 33, 3, 2), 2), wide, Square(40, 5, 48, 3, 7)});
}

TEST(WeightGradientTest, FewChannels) {
  ConvCase oblong = Square(4, 11, 20, 5, 3);
  oblong.kh = 2;
  CheckAll({Strided(Square(3, 20, 32, 7, 2), 2), Square(1, 12, 8, 3), oblong});
}

TEST(WeightGradientTest, PointwiseAndDilated) {
  ConvCase dilated = Square(6, 12, 20, 3);
  dilated.dilation_h = 2;
  dilated.dilation_w = 3;
  dilated.pad_h = 3;
  dilated.pad_w = 1;
  CheckAll({Square(40, 6, 70, 1, 3), Strided(Square(20, 9, 16, 1, 2), 2), dilated});
}

// A large weight is computed as one product, in either layout of the result.
TEST(WeightGradientTest, LargePointwise) {
  for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16}) {
    ConvCase c = Square(300, 3, 440, 1, 3);
    c.type = type;
    CheckAll({c, Strided(c, 2)});
  }
}

TEST(WeightGradientTest, Groups) {
  CheckAll({Grouped(Square(32, 9, 32, 3, 2), 8), Grouped(Square(48, 7, 48, 3), 6),
            Grouped(Square(20, 7, 20, 3, 2), 10), Grouped(Square(64, 7, 64, 3), 4),
            Grouped(Square(12, 9, 24, 3), 4), Grouped(Square(6, 9, 12, 3), 6)});
}

TEST(WeightGradientTest, Depthwise) {
  CheckAll({Grouped(Square(40, 14, 40, 3, 2), 40), Grouped(Strided(Square(5, 17, 5, 5, 2), 2), 5),
            Grouped(Square(70, 6, 70, 7), 70), Grouped(Square(33, 90, 33, 3), 33)});
}

TEST(WeightGradientTest, NarrowTypes) {
  for (const MemoryType type : {MemoryType::kBF16, MemoryType::kF16}) {
    std::vector<ConvCase> cases = {Square(24, 9, 40, 3, 2), Grouped(Square(20, 9, 20, 3), 20),
                                   Strided(Square(3, 16, 16, 7), 2)};
    for (ConvCase& c : cases) c.type = type;
    CheckAll(cases);
  }
}

// The cases have rows of positions that are joined and that are not, pairs with only one half,
// channels beyond a tile, chunks of several images and a last one of fewer rows, and taps that are
// far apart.
TEST(WeightGradientTest, ChannelsLastOfBF16) {
  ConvCase dilated = Square(32, 12, 40, 3);
  dilated.dilation_h = 2;
  dilated.dilation_w = 3;
  dilated.pad_h = 3;
  dilated.pad_w = 1;
  std::vector<ConvCase> cases = {Square(32, 16, 32, 3, 2),
                                 Square(24, 7, 70, 3, 5),
                                 Square(50, 40, 16, 3),
                                 Square(16, 9, 33, 1, 2),
                                 Strided(Square(33, 15, 40, 3, 2), 2),
                                 Strided(Square(17, 9, 16, 1), 2),
                                 Square(16, 5, 16, 5, 3),
                                 Grouped(Square(64, 9, 80, 3), 2),
                                 dilated,
                                 Strided(Square(16, 23, 16, 4), 4)};
  for (ConvCase& c : cases) {
    c.type = MemoryType::kBF16;
    c.channels_last_weight = false;
    for (const IsaLevel isa : TestedLevels()) {
      GradientRun run(c);
      EXPECT_EQ(run.Plan(isa).runs.pairs > 0, isa >= IsaLevel::kV4Bf16);
      EXPECT_EQ(run.Plan(isa).runs.depth > 0, isa == IsaLevel::kV4Amx);
      run.Check(isa);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  const auto runs = [](ConvCase c) {
    c.type = MemoryType::kBF16;
    return GradientRun(c).Plan(IsaLevel::kV4Amx).runs;
  };
  EXPECT_TRUE(runs(Square(50, 40, 16, 3)).joined_rows);
  EXPECT_FALSE(runs(Strided(Square(33, 15, 40, 3, 2), 2)).joined_rows);
}

// Checks that the cases above have met all forms, and the plans of shapes of real models.
TEST(WeightGradientTest, Plans) {
  const auto plan = [](const ConvCase& c) { return GradientRun(c).Plan(IsaLevel::kV4); };
  EXPECT_TRUE(plan(Strided(Square(3, 20, 32, 7, 2), 2)).joined_columns);
  EXPECT_FALSE(plan(Square(40, 5, 48, 3, 7)).joined_columns);
  EXPECT_GT(plan(Square(40, 5, 48, 3, 7)).images, 1);
  EXPECT_GT(plan(Square(33, 90, 33, 3)).splits, 1);
  EXPECT_TRUE(plan(Grouped(Square(33, 90, 33, 3), 33)).lanes);
  EXPECT_GT(plan(Grouped(Square(33, 90, 33, 3), 33)).splits, 1);
  EXPECT_TRUE(plan(Grouped(Square(32, 9, 32, 3, 2), 8)).lanes);
  EXPECT_FALSE(plan(Grouped(Square(48, 7, 48, 3), 3)).lanes);
  EXPECT_FALSE(plan(Grouped(Square(12, 9, 24, 3), 4)).lanes);
  EXPECT_EQ(plan(Square(512, 7, 512, 3, 4)).splits, 1) << "blocks of the weight are work enough";
}

}  // namespace
}  // namespace hpu::graph_compiler
