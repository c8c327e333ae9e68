#include "graph_compiler/contraction/conv/conv_winograd.h"
#include "tests/contraction/conv_run.h"

namespace hpu::graph_compiler {
namespace {

// Runs the cases also in direct form where another form would be taken.
void CheckAll(const std::vector<ConvCase>& cases) {
  for (ConvCase c : cases) {
    for (const IsaLevel isa : TestedLevels()) {
      c.direct = false;
      ConvRun run(c);
      run.Check(isa);
      if (testing::Test::HasFatalFailure()) return;
      if (!PlanWinogradConv(TargetInfoFor(isa), run.spec()).has_value()) continue;
      c.direct = true;
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

// Lanes are channels where few of them make a group; 40 and 24 channels end within a panel.
TEST(ConvTest, NarrowGroups) {
  for (const int64_t size : {2, 4, 8}) {
    for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16}) {
      ConvCase c{.n = 2,
                 .c = 40,
                 .h = 9,
                 .w = 11,
                 .ko = 40,
                 .kh = 3,
                 .kw = 3,
                 .pad_h = 1,
                 .pad_w = 1,
                 .groups = 40 / size,
                 .bias_relu_residual = true};
      c.type = type;
      ConvCase strided = c;
      strided.c = strided.ko = 24;
      strided.groups = 24 / size;
      strided.stride = 2;
      strided.stable = false;
      CheckAll({c, strided});
    }
  }
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

// Channels in whole vectors are read where they lie. The cases have tiles inside the image and over
// its edges, also on both sides at once, rows of the kernel outside the image, and columns that no
// pixel needs.
TEST(ConvTest, DepthwiseInPlace) {
  ConvCase edges{.n = 2, .c = 48, .h = 11, .w = 29, .ko = 48, .kh = 3, .kw = 3};
  edges.pad_h = edges.pad_w = 1;
  edges.groups = 48;
  edges.bias_relu_residual = edges.in_place_residual = true;
  ConvCase large = edges;
  large.kh = large.kw = 7;
  large.pad_h = large.pad_w = 3;
  ConvCase narrow = large;
  narrow.h = 2;
  narrow.w = 3;
  ConvCase strided = edges;
  strided.stride = 2;
  strided.kw = 5;
  strided.pad_w = 2;
  ConvCase dilated = edges;
  dilated.dilation_h = dilated.dilation_w = 3;
  dilated.pad_h = dilated.pad_w = 3;
  ConvCase unpadded = edges;
  unpadded.pad_h = unpadded.pad_w = 0;
  std::vector<ConvCase> cases = {edges, large, narrow, strided, dilated, unpadded};
  for (const MemoryType type : {MemoryType::kBF16, MemoryType::kF16}) {
    cases.push_back(large);
    cases.back().type = type;
    cases.back().bias_relu_residual = cases.back().in_place_residual = false;
  }
  CheckAll(cases);
}

// The same holds for channels that are not whole vectors, as in many networks: the last panel is
// narrower, and of its last vector only the existing channels are touched.
TEST(ConvTest, DepthwiseInPlaceOfAnyChannels) {
  std::vector<ConvCase> cases;
  for (const int64_t channels : {5, 8, 16, 24, 33, 40, 72, 112, 120}) {
    ConvCase c{.n = 2, .c = channels, .h = 9, .w = 13, .ko = channels, .kh = 3, .kw = 3};
    c.pad_h = c.pad_w = 1;
    c.groups = channels;
    c.bias_relu_residual = true;
    cases.push_back(c);
    c.stride = 2;
    c.kh = c.kw = 5;
    c.pad_h = c.pad_w = 2;
    c.bias_relu_residual = false;
    c.type = channels % 16 == 0 ? MemoryType::kF16 : MemoryType::kBF16;
    cases.push_back(c);
  }
  CheckAll(cases);
}

// Where the machine multiplies pairs of bf16, two taps of a row are one pair. The cases have even
// and odd rows of the kernel, every stride, pixels beside and between edges, and panels that are
// filled up.
TEST(ConvTest, DepthwisePairsOfColumns) {
  std::vector<ConvCase> cases;
  for (const int64_t kernel : {2, 3, 4, 5, 7}) {
    for (const int64_t channels : {30, 32, 64, 120, 144}) {
      ConvCase c{.n = 2, .c = channels, .h = 8, .w = 21, .ko = channels, .kh = 3, .kw = kernel};
      c.groups = channels;
      c.pad_h = 1;
      c.pad_w = kernel / 2;
      c.type = MemoryType::kBF16;
      c.bias_relu_residual = channels % 64 != 0;
      c.stable = channels != 120;
      c.channels_last_weight = channels == 32;
      EXPECT_TRUE(
          PlanDepthwiseConv(TargetInfoFor(IsaLevel::kV4Bf16), ConvRun(c).spec()).column_pairs);
      cases.push_back(c);
      c.stride = kernel < 4 ? 2 : 3;
      cases.push_back(c);
    }
  }
  ConvCase narrow = cases[0];
  narrow.kw = 7;
  narrow.w = 2;
  narrow.pad_w = 3;
  cases.push_back(narrow);
  CheckAll(cases);
}

TEST(ConvTest, DepthwisePairsLeaveTheNextColumnAlone) {
  ConvCase c{.n = 1, .c = 32, .h = 1, .w = 12, .ko = 32, .kh = 1, .kw = 3};
  c.groups = 32;
  c.type = MemoryType::kBF16;
  for (const IsaLevel isa : TestedLevels()) {
    ConvRun run(c);
    constexpr int64_t kInfinite = 6;
    for (int64_t channel = 0; channel < c.c; ++channel) {
      run.x().Set(3 + kInfinite * c.c + channel, std::numeric_limits<float>::infinity());
    }
    TestBuffer y = run.Outputs();
    run.Compile(isa).Run(run.Buffers(y), 1);
    for (int64_t pixel = 0; pixel < 10; ++pixel) {
      const bool sees_it = pixel <= kInfinite && pixel + 2 >= kInfinite;
      EXPECT_EQ(std::isfinite(y.Get(pixel * c.ko)), !sees_it) << pixel;
    }
  }
}

// Whether the channels are copied first decides the time.
TEST(ConvTest, DepthwiseOfAnyChannelsIsNotCopied) {
  ConvCase c{.n = 1, .c = 40, .h = 9, .w = 13, .ko = 40, .kh = 3, .kw = 3};
  c.groups = 40;
  const ConvSpec spec = ConvRun(c).spec();
  EXPECT_FALSE(PlanDepthwiseConv(TargetInfoFor(IsaLevel::kV4), spec).strip);
  EXPECT_FALSE(PlanDepthwiseConv(TargetInfoFor(IsaLevel::kV3), spec).strip);
}

// The rows of the strip are longer than vectors and consist of two or three planes.
TEST(ConvTest, ChannelsThatLieApartAreInterleaved) {
  std::vector<ConvCase> cases;
  for (const int64_t channels : {2, 3}) {
    ConvCase c{.n = 2, .c = channels, .h = 7, .w = 53, .ko = 20, .kh = 3, .kw = 3};
    c.pad_h = c.pad_w = 1;
    c.nchw_input = true;
    cases.push_back(c);
    c.type = MemoryType::kF16;
    cases.push_back(c);
  }
  CheckAll(cases);
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

// The cases read from a strip, in place and in groups, and include channels without pairs (odd
// channels, channels that lie apart).
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

// The strip joins few channels in pairs, an odd one with a zero, whatever their layout.
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
            "UNIMPLEMENTED: conv7: convolution operands must be f32, bf16 or f16, or u8 and i8");
}

}  // namespace
}  // namespace hpu::graph_compiler
