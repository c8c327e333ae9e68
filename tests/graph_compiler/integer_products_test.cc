// Products of dequantised operands are exact sums of integers at every ISA level.
#include "recipe/isa.h"
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

constexpr float kScale = 0.013f;

std::vector<IsaLevel> Levels() {
  std::vector<IsaLevel> levels;
  for (const IsaLevel level :
       {IsaLevel::kV2, IsaLevel::kV3, IsaLevel::kV4, IsaLevel::kV4Bf16, IsaLevel::kV4Amx}) {
    if (level <= HostIsaLevel()) levels.push_back(level);
  }
  return levels;
}

template <typename T>
std::vector<T> RandomIntegers(size_t count, int low, int high, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    value =
        static_cast<T>(low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1)));
  }
  return values;
}

// The zero points of the weights are absent, present and 0, or present and not 0.
enum class WeightZeros { kNone, kZero, kSome };

// Adds (q - zero) * scale of both operands.
class Quantised {
 public:
  Quantised(GraphBuilder& b, const Dims& x_sizes, const Dims& w_sizes, int x_zero,
            WeightZeros w_zeros)
      : b_(b), x_zero_(x_zero), x_count_(Elements(x_sizes)), w_count_(Elements(w_sizes)) {
    columns_ = w_sizes[0];
    x_ = b.Persistent(x_sizes, syn_type_uint8);
    w_ = b.Persistent(w_sizes, syn_type_int8);
    scales_ = b.Persistent({columns_});
    const uint32_t zero = b.Constant<float>({1}, syn_type_float, {static_cast<float>(x_zero)});
    const uint32_t scale = b.Constant<float>({1}, syn_type_float, {kScale});
    x_value = Steps("cast_u8_to_f32", x_, x_sizes, zero, scale);
    uint32_t w_zero = kNoTensor;
    zeros_.assign(columns_, 0);
    if (w_zeros != WeightZeros::kNone) {
      w_zeros_ = b.Persistent({columns_}, syn_type_int64);
      w_zero = b.Temporary({columns_});
      b.Node("cast_i64_to_f32", {w_zeros_}, {w_zero});
    }
    if (w_zeros == WeightZeros::kSome) zeros_ = RandomIntegers<int64_t>(columns_, -9, 9, 4);
    w_value = Steps("cast_i8_to_f32", w_, w_sizes, w_zero, scales_);
  }

  void Set(GraphRun& run) {
    x = RandomIntegers<uint8_t>(x_count_, 0, 255, 1);
    w = RandomIntegers<int8_t>(w_count_, -128, 127, 2);
    scales = RandomFloats(columns_, 3, 0.001f, 0.1f);
    run.Set(x_, x);
    run.Set(w_, w);
    run.Set(scales_, scales);
    if (w_zeros_ != kNoTensor) run.Set(w_zeros_, zeros_);
  }

  // Returns the product of two places in the operands.
  int64_t Product(size_t x_place, size_t w_place) const {
    return (int64_t{x[x_place]} - x_zero_) * (w[w_place] - zeros_[w_place % columns_]);
  }
  float Result(int64_t sum, size_t column) const {
    return static_cast<float>(sum) * (kScale * scales[column]);
  }

  uint32_t x_value = 0, w_value = 0;
  std::vector<uint8_t> x;
  std::vector<int8_t> w;
  std::vector<float> scales;

 private:
  uint32_t Steps(const char* cast, uint32_t q, const Dims& sizes, uint32_t zero, uint32_t scale) {
    const uint32_t wide = b_.Temporary(sizes);
    b_.Node(cast, {q}, {wide});
    uint32_t difference = wide;
    if (zero != kNoTensor) {
      difference = b_.Temporary(sizes);
      b_.Node("sub_fwd_f32", {wide, zero}, {difference});
    }
    const uint32_t value = b_.Temporary(sizes);
    b_.Node("mult_fwd_f32", {difference, scale}, {value});
    return value;
  }

  GraphBuilder& b_;
  const int x_zero_;
  const size_t x_count_, w_count_;
  size_t columns_ = 0;
  uint32_t x_ = 0, w_ = 0, scales_ = 0, w_zeros_ = kNoTensor;
  std::vector<int64_t> zeros_;
};

class IntegerProductsTest : public testing::TestWithParam<IsaLevel> {};
INSTANTIATE_TEST_SUITE_P(Isa, IntegerProductsTest, testing::ValuesIn(Levels()));

struct GemmCase {
  size_t m, n, k;
  int x_zero;
  WeightZeros w_zeros;
};

TEST_P(IntegerProductsTest, GemmIsExact) {
  for (const GemmCase& c :
       {GemmCase{7, 33, 64, 0, WeightZeros::kNone}, GemmCase{40, 70, 37, 125, WeightZeros::kZero},
        GemmCase{3, 5, 1, 255, WeightZeros::kSome}, GemmCase{1, 64, 256, 3, WeightZeros::kZero},
        GemmCase{150, 48, 4000, 128, WeightZeros::kSome},
        GemmCase{65, 32, 192, 77, WeightZeros::kSome}}) {
    GraphBuilder b;
    Quantised q(b, {c.k, c.m}, {c.n, c.k}, c.x_zero, c.w_zeros);
    const uint32_t out = b.Persistent({c.n, c.m});
    b.Node("gemm", {q.x_value, q.w_value}, {out}, synGEMMParams{});
    GraphRun run(b.graph);
    q.Set(run);
    ASSERT_TRUE(run.Run(GetParam(), 1).ok());
    const auto got = run.Get<float>(out);
    for (size_t row = 0; row < c.m; ++row) {
      for (size_t column = 0; column < c.n; ++column) {
        int64_t sum = 0;
        for (size_t k = 0; k < c.k; ++k) sum += q.Product(row * c.k + k, k * c.n + column);
        ASSERT_EQ(got[row * c.n + column], q.Result(sum, column))
            << c.m << "x" << c.n << "x" << c.k << " at " << row << ", " << column;
      }
    }
  }
}

struct ConvCase {
  size_t size, channels, outputs;
  uint32_t kernel, stride;
  int pad;
  int x_zero;
  WeightZeros w_zeros;
};

TEST_P(IntegerProductsTest, ConvolutionIsExact) {
  for (const ConvCase& c : {ConvCase{9, 3, 20, 3, 2, 1, 130, WeightZeros::kSome},
                            ConvCase{8, 64, 40, 3, 1, 1, 4, WeightZeros::kZero},
                            ConvCase{16, 32, 8, 3, 1, 1, 200, WeightZeros::kSome},
                            ConvCase{12, 32, 65, 1, 1, 0, 31, WeightZeros::kSome},
                            ConvCase{7, 16, 8, 1, 2, 0, 5, WeightZeros::kSome},
                            ConvCase{6, 4, 70, 5, 1, 2, 0, WeightZeros::kNone}}) {
    GraphBuilder b;
    const size_t n = 2;
    const size_t out_size = (c.size + 2 * c.pad - c.kernel) / c.stride + 1;
    Quantised q(b, {c.channels, c.size, c.size, n}, {c.outputs, c.channels, c.kernel, c.kernel},
                c.x_zero, c.w_zeros);
    const uint32_t out = b.Persistent({c.outputs, out_size, out_size, n});
    synConvolutionParams params{};
    params.kW = params.kH = c.kernel;
    params.dW = params.dH = c.stride;
    params.padL = params.padR = params.padT = params.padB = c.pad;
    params.dilW = params.dilH = 1;
    params.nGroups = 1;
    b.Node("spatial_convolution", {q.x_value, q.w_value}, {out}, params);
    GraphRun run(b.graph);
    q.Set(run);
    ASSERT_TRUE(run.Run(GetParam(), 1).ok());
    const auto got = run.Get<float>(out);
    const auto input = [&](size_t at, size_t tap) {
      return static_cast<int64_t>(at * c.stride + tap) - c.pad;
    };
    for (size_t place = 0; place < got.size(); ++place) {
      const size_t column = place % c.outputs, pixel = place / c.outputs;
      const size_t wo = pixel % out_size, ho = pixel / out_size % out_size;
      const size_t image = pixel / out_size / out_size;
      int64_t sum = 0;
      for (size_t r = 0; r < c.kernel; ++r) {
        for (size_t s = 0; s < c.kernel; ++s) {
          const int64_t h = input(ho, r), w = input(wo, s);
          const auto size = static_cast<int64_t>(c.size);
          if (h < 0 || w < 0 || h >= size || w >= size) continue;
          for (size_t k = 0; k < c.channels; ++k) {
            const size_t x = ((image * c.size + h) * c.size + w) * c.channels + k;
            sum += q.Product(x, ((r * c.kernel + s) * c.channels + k) * c.outputs + column);
          }
        }
      }
      ASSERT_EQ(got[place], q.Result(sum, column))
          << c.size << "x" << c.channels << " at " << place;
    }
  }
}

// The result of a product that is quantised again is stored as bytes, whichever other nodes
// dequantise them.
TEST_P(IntegerProductsTest, QuantisedResultsAreStoredAsBytes) {
  GraphBuilder b;
  Quantised q(b, {64, 40}, {64, 64}, 7, WeightZeros::kZero);
  const Dims sizes = {64, 40};
  const uint32_t sum = b.Temporary(sizes), rounded = b.Temporary(sizes), low = b.Temporary(sizes);
  const uint32_t high = b.Temporary(sizes), bytes = b.Temporary(sizes, syn_type_uint8);
  const uint32_t again = b.Temporary(sizes), more = b.Temporary(sizes);
  const uint32_t out = b.Persistent(sizes), other = b.Persistent(sizes);
  b.Node("gemm", {q.x_value, q.w_value}, {sum}, synGEMMParams{});
  b.Node("round_fwd_f32", {sum}, {rounded}, ns_RoundKernel_Params{NS_ROUND_HALF_TO_EVEN});
  b.Node("max_fwd_f32", {rounded, b.Constant<float>({1}, syn_type_float, {0})}, {low});
  b.Node("min_fwd_f32", {low, b.Constant<float>({1}, syn_type_float, {255})}, {high});
  b.Node("cast_f32_to_u8", {high}, {bytes});
  b.Node("cast_u8_to_f32", {bytes}, {again});
  b.Node("mult_fwd_f32", {again, b.Constant<float>({1}, syn_type_float, {0.5})}, {more});
  b.Node("tanh_fwd_f32", {more}, {out});
  b.Node("neg_fwd_f32", {more}, {other});
  GraphRun run(b.graph);
  q.Set(run);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  EXPECT_LT(run.recipe.workspace_bytes, 64u * 40 * 4);
  const auto got = run.Get<float>(other);
  for (size_t place = 0; place < got.size(); ++place) {
    int64_t exact = 0;
    for (size_t k = 0; k < 64; ++k) exact += q.Product(place / 64 * 64 + k, k * 64 + place % 64);
    const float value = std::nearbyint(q.Result(exact, place % 64));
    ASSERT_EQ(got[place], -0.5f * std::min(std::max(value, 0.0f), 255.0f)) << place;
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
