#include "graph_compiler/contraction/conv/conv_winograd.h"
#include "tests/contraction/conv_run.h"

namespace hpu::graph_compiler {
namespace {

ConvCase Square(int64_t channels, int64_t size, int64_t out_channels, int64_t batch = 1) {
  ConvCase c = {
      .n = batch, .c = channels, .h = size, .w = size, .ko = out_channels, .kh = 3, .kw = 3};
  c.pad_h = c.pad_w = 1;
  return c;
}

std::optional<WinogradPlan> Plan(IsaLevel isa, const ConvCase& c) {
  return PlanWinogradConv(TargetInfoFor(isa), ConvRun(c).spec());
}

// Runs the case at every level of this CPU that takes the form for this shape; some level must take
// it.
void CheckWinograd(const ConvCase& c) {
  EXPECT_TRUE(Plan(IsaLevel::kV3, c).has_value() || Plan(IsaLevel::kV4, c).has_value()) << Name(c);
  for (const IsaLevel isa : TestedLevels()) {
    if (!Plan(isa, c).has_value()) continue;
    ConvRun(c).Check(isa);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(WinogradTest, OddAndEvenSizes) {
  for (const int64_t h : {7, 10}) {
    for (const int64_t w : {8, 15}) {
      ConvCase c = Square(64, h, 64, 6);
      c.w = w;
      CheckWinograd(c);
      c.pad_h = 0;
      CheckWinograd(c);
    }
  }
}

TEST(WinogradTest, LayoutsAndEpilogues) {
  ConvCase c = Square(32, 11, 72, 3);
  c.nchw_input = c.nchw_output = true;
  CheckWinograd(c);
  c.bias_relu_residual = true;
  CheckWinograd(c);
  c.nchw_input = c.nchw_output = false;
  c.channels_last_weight = true;
  CheckWinograd(c);
  c.in_place_residual = true;
  CheckWinograd(c);
  c.stable = false;
  CheckWinograd(c);
}

// The cases have many blocks of a row, several images and blocks per task, and several panels per
// task.
TEST(WinogradTest, Cuts) {
  CheckWinograd(Square(64, 24, 40));
  CheckWinograd(Square(256, 8, 72, 4));
  CheckWinograd(Square(320, 6, 72, 5));
  CheckWinograd(Square(16, 48, 72, 3));
  ConvCase wide = Square(128, 4, 40, 2);
  wide.w = 150;
  CheckWinograd(wide);
  const auto v4 = [](const ConvCase& c) { return *Plan(IsaLevel::kV4, c); };
  EXPECT_TRUE(Plan(IsaLevel::kV3, Square(64, 24, 40)).has_value()) << "for CPUs without AVX-512";
  EXPECT_GT(v4(wide).block.blocks_w, 1);
  EXPECT_GT(v4(Square(256, 8, 72, 4)).blocks_per_task, 1);
  EXPECT_GT(v4(Square(16, 48, 72, 3)).block.panels_per_task, 1);
}

TEST(WinogradTest, IsTakenWhereItPays) {
  const auto pays = [](ConvCase c) { return Plan(IsaLevel::kV4, c).has_value(); };
  EXPECT_TRUE(pays(Square(64, 56, 64)));
  EXPECT_TRUE(pays(Square(512, 14, 512)));
  EXPECT_FALSE(pays(Square(48, 1, 64)));      // one pixel: a quarter of a tile
  EXPECT_FALSE(pays(Square(64, 4, 64, 32)));  // four tiles per image: too few rows
  EXPECT_FALSE(pays(Square(2048, 28, 64)));   // only as few tiles fit into a cache
  EXPECT_FALSE(pays(Square(64, 56, 4)));      // transforming the input costs more than it saves
  EXPECT_FALSE(pays(Square(24, 56, 64)));     // channels are not whole vectors
  const auto pays_with = [&](const std::function<void(ConvCase&)>& change) {
    ConvCase c = Square(64, 56, 64);
    change(c);
    return pays(c);
  };
  EXPECT_FALSE(pays_with([](ConvCase& c) { c.stride = 2; }));
  EXPECT_FALSE(pays_with([](ConvCase& c) { c.dilation_h = 2; }));
  EXPECT_FALSE(pays_with([](ConvCase& c) { c.groups = 2; }));
  EXPECT_FALSE(pays_with([](ConvCase& c) { c.kw = 5; }));
  EXPECT_FALSE(pays_with([](ConvCase& c) { c.type = MemoryType::kBF16; }));
  EXPECT_FALSE(pays_with([](ConvCase& c) { c.direct = true; }));
}

// A NaN reaches the 3 x 3 outputs whose windows contain it and changes no bit of any other output.
TEST(WinogradTest, OutputsDependOnTheirWindowOnly) {
  const ConvCase c = Square(32, 12, 32);
  for (const IsaLevel isa : TestedLevels()) {
    SCOPED_TRACE(LevelName(isa));
    ConvRun run(c);
    ASSERT_TRUE(PlanWinogradConv(TargetInfoFor(isa), run.spec()).has_value());
    CompiledContraction compiled = run.Compile(isa);
    TestBuffer clean = run.Outputs();
    compiled.Run(run.Buffers(clean));
    for (const int64_t at : {4, 5}) {
      ConvRun dirty_run(c);
      dirty_run.x().Set(3 + (at * c.w + 7) * c.c + 9, NAN);
      TestBuffer dirty = run.Outputs();
      compiled.Run(dirty_run.Buffers(dirty));
      for (int64_t h = 0; h < c.h; ++h) {
        for (int64_t w = 0; w < c.w; ++w) {
          for (int64_t k = 0; k < c.ko; ++k) {
            const int64_t i = run.OutIndex(0, h, w, k);
            if (std::abs(h - at) <= 1 && std::abs(w - 7) <= 1) {
              EXPECT_TRUE(std::isnan(dirty.Get(i))) << h << " " << w << " " << k;
            } else {
              EXPECT_EQ(dirty.Get(i), clean.Get(i)) << h << " " << w << " " << k;
            }
          }
        }
      }
    }
  }
}

// docs/numerics.md states the factor.
TEST(WinogradTest, ErrorIsCloseToTheDirectForms) {
  for (const int64_t channels : {32, 256}) {
    double errors[2] = {};
    for (const bool direct : {false, true}) {
      ConvCase c = Square(channels, 10, 32);
      c.direct = direct;
      ConvRun run(c);
      ASSERT_EQ(PlanWinogradConv(TargetInfoFor(IsaLevel::kV3), run.spec()).has_value(), !direct);
      TestBuffer out = run.Outputs();
      run.Compile(IsaLevel::kV3).Run(run.Buffers(out));
      for (int64_t h = 0; h < c.h; ++h) {
        for (int64_t w = 0; w < c.w; ++w) {
          for (int64_t k = 0; k < c.ko; ++k) {
            const double error = out.Get(run.OutIndex(0, h, w, k)) - run.Reference(0, h, w, k);
            errors[direct] += error * error;
          }
        }
      }
    }
    RecordProperty("factor_" + std::to_string(channels),
                   std::to_string(std::sqrt(errors[0] / errors[1])));
    EXPECT_LT(std::sqrt(errors[0] / errors[1]), 2.0) << channels;
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
