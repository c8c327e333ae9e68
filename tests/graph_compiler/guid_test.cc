// Every kind of node against a plain reference, over odd sizes, element types and ISA levels.
#include <functional>
#include <numeric>

#include "tests/graph_compiler/graph_runner.h"

namespace hpu::emulator {
namespace {

float FromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Float tensors of any float type.
void SetFloats(GraphRun& run, uint32_t tensor, synDataType type, const std::vector<float>& values) {
  if (type == syn_type_float) {
    run.Set(tensor, values);
    return;
  }
  std::vector<uint16_t> narrow;
  for (const float v : values) narrow.push_back(ToBf16(v));
  run.Set(tensor, narrow);
}
std::vector<float> GetFloats(GraphRun& run, uint32_t tensor, synDataType type) {
  if (type == syn_type_float) return run.Get<float>(tensor);
  std::vector<float> values;
  for (const uint16_t bits : run.Get<uint16_t>(tensor)) values.push_back(FromBf16(bits));
  return values;
}
std::vector<float> Rounded(std::vector<float> values, synDataType type) {
  if (type == syn_type_bf16) {
    for (float& v : values) v = FromBf16(ToBf16(v));
  }
  return values;
}

// ---- elementwise ----------------------------------------------------------------------------

struct ElementwiseCase {
  const char* guid;  // without suffix
  size_t arity;
  double (*reference)(double, double, double);
  float low = -2;
  float high = 2;
};

const ElementwiseCase kElementwise[] = {
    {"add_fwd", 2, [](double a, double b, double) { return a + b; }},
    {"sub_fwd", 2, [](double a, double b, double) { return a - b; }},
    {"mult_fwd", 2, [](double a, double b, double) { return a * b; }},
    {"div_fwd", 2, [](double a, double b, double) { return a / b; }, 0.5f, 3},
    {"min_fwd", 2, [](double a, double b, double) { return std::min(a, b); }},
    {"max_fwd", 2, [](double a, double b, double) { return std::max(a, b); }},
    {"pow_fwd", 2, [](double a, double b, double) { return std::pow(a, b); }, 0.1f, 3},
    {"rem_fwd", 2, [](double a, double b, double) { return std::fmod(a, b); }, 0.5f, 7},
    {"atan2_fwd", 2, [](double a, double b, double) { return std::atan2(a, b); }},
    {"hypot_fwd", 2, [](double a, double b, double) { return std::hypot(a, b); }},
    {"logaddexp_fwd", 2,
     [](double a, double b, double) { return std::log(std::exp(a) + std::exp(b)); }},
    {"neg_fwd", 1, [](double a, double, double) { return -a; }},
    {"abs_fwd", 1, [](double a, double, double) { return std::abs(a); }},
    {"sign_fwd", 1, [](double a, double, double) { return a > 0   ? 1.0
                                                          : a < 0 ? -1.0
                                                                  : 0.0; }},
    {"floor_fwd", 1, [](double a, double, double) { return std::floor(a); }},
    {"ceil_fwd", 1, [](double a, double, double) { return std::ceil(a); }},
    {"trunc_fwd", 1, [](double a, double, double) { return std::trunc(a); }},
    {"exp_fwd", 1, [](double a, double, double) { return std::exp(a); }},
    {"expm1_fwd", 1, [](double a, double, double) { return std::expm1(a); }},
    {"log_fwd", 1, [](double a, double, double) { return std::log(a); }, 0.1f, 9},
    {"log1p_fwd", 1, [](double a, double, double) { return std::log1p(a); }, 0, 9},
    {"sqrt_fwd", 1, [](double a, double, double) { return std::sqrt(a); }, 0, 9},
    {"rsqrt_fwd", 1, [](double a, double, double) { return 1 / std::sqrt(a); }, 0.1f, 9},
    {"reciprocal_fwd", 1, [](double a, double, double) { return 1 / a; }, 0.2f, 3},
    {"sin_fwd", 1, [](double a, double, double) { return std::sin(a); }},
    {"cos_fwd", 1, [](double a, double, double) { return std::cos(a); }},
    {"tanh_fwd", 1, [](double a, double, double) { return std::tanh(a); }},
    {"erf_fwd", 1, [](double a, double, double) { return std::erf(a); }},
    {"sigmoid_fwd", 1, [](double a, double, double) { return 1 / (1 + std::exp(-a)); }},
    {"silu_fwd", 1, [](double a, double, double) { return a / (1 + std::exp(-a)); }},
    {"relu_fwd", 1, [](double a, double, double) { return std::max(a, 0.0); }},
    {"gelu_fwd", 1,
     [](double a, double, double) { return 0.5 * a * (1 + std::erf(a / std::sqrt(2.0))); }},
    {"mish_fwd", 1,
     [](double a, double, double) { return a * std::tanh(std::log1p(std::exp(a))); }},
    {"hard_swish_fwd", 1,
     [](double a, double, double) { return a * std::min(std::max(a + 3, 0.0), 6.0) / 6; }, -5, 5},
    {"softplus_fwd", 1, [](double a, double, double) { return std::log1p(std::exp(a)); }},
    {"addcmul_fwd", 3, [](double a, double b, double c) { return a + b * c; }},
};

class ElementwiseTest : public testing::TestWithParam<std::tuple<ElementwiseCase, IsaLevel>> {};
INSTANTIATE_TEST_SUITE_P(All, ElementwiseTest,
                         testing::Combine(testing::ValuesIn(kElementwise),
                                          testing::ValuesIn(GraphIsaLevels())),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).guid) + "_v" +
                                  std::to_string(static_cast<int>(std::get<1>(param.param)));
                         });

TEST_P(ElementwiseTest, MatchesReference) {
  const auto& [test, isa] = GetParam();
  for (const synDataType type : {syn_type_float, syn_type_bf16}) {
    for (const Dims& sizes : {Dims{1}, Dims{13, 3}, Dims{8, 1, 5}}) {
      GraphBuilder b;
      std::vector<uint32_t> inputs;
      // The second operand is broadcast along the outermost dimension.
      Dims second = sizes;
      second.back() = 1;
      for (size_t i = 0; i < test.arity; ++i) {
        inputs.push_back(b.Persistent(i == 1 ? second : sizes, type));
      }
      const uint32_t out = b.Persistent(sizes, type);
      const std::string suffix = type == syn_type_float ? "_f32" : "_bf16";
      b.Node(test.guid + suffix, inputs, {out});
      GraphRun run(b.graph);
      std::vector<std::vector<float>> values(3, std::vector<float>(Elements(sizes), 0));
      for (size_t i = 0; i < test.arity; ++i) {
        const Dims& shape = i == 1 ? second : sizes;
        values[i] =
            Rounded(RandomFloats(Elements(shape), uint32_t(i + 1), test.low, test.high), type);
        SetFloats(run, inputs[i], type, values[i]);
      }
      const absl::Status status = run.Run(isa);
      ASSERT_TRUE(status.ok()) << status;
      std::vector<float> wanted;
      for (size_t i = 0; i < Elements(sizes); ++i) {
        wanted.push_back(static_cast<float>(
            test.reference(values[0][i], values[1][i % values[1].size()], values[2][i])));
      }
      ExpectNear(GetFloats(run, out, type), wanted, type == syn_type_float ? 2e-6 : 6e-3,
                 test.guid);
    }
  }
}

// ---- everything else ------------------------------------------------------------------------

class GuidTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void RunOrFail(GraphRun& run, uint64_t piece = 0) {
    const absl::Status status = run.Run(GetParam(), piece);
    ASSERT_TRUE(status.ok()) << status;
  }
};
INSTANTIATE_TEST_SUITE_P(Isa, GuidTest, testing::ValuesIn(GraphIsaLevels()));

TEST_P(GuidTest, ComparisonsAndSelection) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({19});
  const uint32_t y = b.Persistent({19});
  const uint32_t less = b.Persistent({19}, syn_type_int8);
  const uint32_t chosen = b.Persistent({19});
  b.Node("less_fwd_f32", {x, y}, {less});
  b.Node("where_fwd_f32", {less, x, y}, {chosen});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(19);
  const auto ys = RandomFloats(19, 2);
  run.Set(x, xs);
  run.Set(y, ys);
  RunOrFail(run);
  const auto mask = run.Get<int8_t>(less);
  const auto out = run.Get<float>(chosen);
  for (size_t i = 0; i < 19; ++i) {
    EXPECT_EQ(mask[i], xs[i] < ys[i] ? 1 : 0);
    EXPECT_EQ(out[i], std::min(xs[i], ys[i]));
  }
}

TEST_P(GuidTest, CastsAndIntegers) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({21});
  const uint32_t i32 = b.Persistent({21}, syn_type_int32);
  const uint32_t i8 = b.Persistent({21}, syn_type_int8);
  const uint32_t i64 = b.Persistent({21}, syn_type_int64);
  const uint32_t bf16 = b.Persistent({21}, syn_type_bf16);
  b.Node("cast_f32_to_i32", {x}, {i32});
  b.Node("cast_i32_to_i8", {i32}, {i8});
  b.Node("cast_i32_to_i64", {i32}, {i64});
  b.Node("cast_f32_to_bf16", {x}, {bf16});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(21, 1, -300, 300);
  run.Set(x, xs);
  RunOrFail(run);
  for (size_t i = 0; i < 21; ++i) {
    const auto whole = static_cast<int32_t>(xs[i]);
    EXPECT_EQ(run.Get<int32_t>(i32)[i], whole);
    EXPECT_EQ(run.Get<int8_t>(i8)[i], static_cast<int8_t>(whole));
    EXPECT_EQ(run.Get<int64_t>(i64)[i], whole);
    EXPECT_EQ(run.Get<uint16_t>(bf16)[i], ToBf16(xs[i]));
  }
}

TEST_P(GuidTest, ReductionsOverAnyDimensions) {
  const Dims sizes = {5, 17, 3};
  const auto xs = RandomFloats(Elements(sizes));
  for (uint32_t mask = 0; mask < 8; ++mask) {
    for (const char* guid : {"sum", "mean", "max", "min", "prod", "sum_square"}) {
      GraphBuilder b;
      const uint32_t x = b.Persistent(sizes);
      const uint32_t effective = mask == 0 ? 7 : mask;
      Dims kept = sizes;
      for (size_t d = 0; d < 3; ++d) {
        if ((effective >> d & 1) != 0) kept[d] = 1;
      }
      const uint32_t out = b.Persistent(kept);
      b.Node(std::string("reduce_") + guid + "_multi_dim_fwd_f32", {x}, {out},
             ns_Reduction_ParamsV2{mask, 1});
      GraphRun run(b.graph);
      run.Set(x, xs);
      RunOrFail(run);
      std::vector<double> wanted(Elements(kept));
      std::vector<int> seen(Elements(kept), 0);
      for (size_t i = 0; i < xs.size(); ++i) {
        const size_t c[3] = {i % 5, i / 5 % 17, i / 85};
        size_t at = 0;
        for (size_t d = 3; d-- > 0;) at = at * kept[d] + (kept[d] == 1 ? 0 : c[d]);
        const double v = xs[i];
        const std::string kind = guid;
        double& w = wanted[at];
        if (kind == "prod") w = (seen[at] ? w : 1) * v;
        if (kind == "sum" || kind == "mean") w += v;
        if (kind == "sum_square") w += v * v;
        if (kind == "max") w = seen[at] ? std::max(w, v) : v;
        if (kind == "min") w = seen[at] ? std::min(w, v) : v;
        ++seen[at];
      }
      std::vector<float> rounded;
      for (size_t i = 0; i < wanted.size(); ++i) {
        const double scale = std::string(guid) == "mean" ? 1.0 / seen[i] : 1.0;
        rounded.push_back(static_cast<float>(wanted[i] * scale));
      }
      ExpectNear(run.Get<float>(out), rounded, 1e-5, guid + std::to_string(mask));
    }
  }
}

TEST_P(GuidTest, ArgmaxTakesTheFirstAndNan) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({6, 3});
  const uint32_t out = b.Persistent({1, 3}, syn_type_int32);
  b.Node("argmax_fwd_f32", {x}, {out}, ns_Reduction_Params{0});
  GraphRun run(b.graph);
  run.Set<float>(x, {1, 5, 2, 5, 0, 1, -1, -2, -3, -1, -4, -9, 1, 2, NAN, 9, 3, 4});
  RunOrFail(run);
  EXPECT_EQ(run.Get<int32_t>(out), (std::vector<int32_t>{1, 0, 2}));
}

TEST_P(GuidTest, CumulativeSums) {
  for (const int axis : {0, 1}) {
    for (const int exclusive : {0, 1}) {
      for (const int reverse : {0, 1}) {
        GraphBuilder b;
        const uint32_t x = b.Persistent({9, 5});
        const uint32_t out = b.Persistent({9, 5});
        b.Node("cumsum_fwd_f32", {x}, {out}, ns_CumSumKernel_Params{axis, exclusive, reverse});
        GraphRun run(b.graph);
        const auto xs = RandomFloats(45);
        run.Set(x, xs);
        RunOrFail(run);
        std::vector<float> wanted(45);
        const size_t n = axis == 0 ? 9 : 5;
        const size_t step = axis == 0 ? 1 : 9;
        for (size_t row = 0; row < 45 / n; ++row) {
          const size_t base = axis == 0 ? row * 9 : row;
          double sum = 0;
          for (size_t i = 0; i < n; ++i) {
            const size_t at = base + (reverse ? n - 1 - i : i) * step;
            if (exclusive) wanted[at] = static_cast<float>(sum);
            sum += xs[at];
            if (!exclusive) wanted[at] = static_cast<float>(sum);
          }
        }
        ExpectNear(run.Get<float>(out), wanted, 1e-5);
      }
    }
  }
}

TEST_P(GuidTest, TopKIsSortedAndStable) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({7, 2});
  const uint32_t values = b.Persistent({3, 2});
  const uint32_t indices = b.Persistent({3, 2}, syn_type_int32);
  const uint32_t low = b.Persistent({3, 2});
  const uint32_t low_indices = b.Persistent({3, 2}, syn_type_int64);
  b.Node("topk", {x}, {values, indices}, synBeamParams{3, 0, 0, 0, 0});
  b.Node("topk", {x}, {low, low_indices}, synBeamParams{3, 0, 1, 0, 0});
  GraphRun run(b.graph);
  run.Set<float>(x, {1, 3, -2, 3, 0, 2, 1, -1, NAN, -5, 7, -1, -0.0f, 0});
  RunOrFail(run);
  EXPECT_EQ(run.Get<int32_t>(indices), (std::vector<int32_t>{1, 3, 5, 1, 3, 5}));
  EXPECT_EQ(run.Get<int64_t>(low_indices), (std::vector<int64_t>{2, 4, 0, 2, 0, 4}));
  EXPECT_EQ(run.Get<float>(low)[0], -2);
  EXPECT_EQ(run.Get<float>(values)[2], 2);
}

TEST_P(GuidTest, MovementIsExact) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({6, 4});
  const uint32_t turned = b.Temporary({4, 6});
  const uint32_t part = b.Temporary({2, 6});
  const uint32_t padded = b.Temporary({5, 6});
  const uint32_t joined = b.Persistent({7, 6});
  const uint32_t tiled = b.Persistent({12, 8});
  const uint32_t view = b.Persistent({3, 2});
  b.Node("transpose", {x}, {turned}, synTransposeParams{{1, 0, 0, 0, 0}, 2});
  b.Node("slice_axis", {turned}, {part}, synSliceAxisParams{0, 1, 3});
  ns_PadKernelEx_Params pad{};
  pad.value.f = 9;
  pad.pads[0] = 1;
  pad.pads[2] = 2;
  b.Node("pad_fwd_f32", {part}, {padded}, pad);
  b.Node("concat", {padded, part}, {joined}, synAxisParams{0});
  b.Node("tile_fwd_f32", {x}, {tiled}, ns_TileKernel_ParamsV2{{2, 2, 1, 1, 1}});
  synStridedOpParams strided{};
  strided.baseOffset = 3;
  strided.strides[0] = 2;
  strided.strides[1] = 7;
  b.Node("strided_view", {x}, {view}, strided);
  GraphRun run(b.graph);
  std::vector<float> xs(24);
  std::iota(xs.begin(), xs.end(), 0.0f);
  run.Set(x, xs);
  RunOrFail(run);
  const auto at = [&](size_t row, size_t column) { return xs[row * 6 + column]; };
  const auto out = run.Get<float>(joined);
  for (size_t row = 0; row < 6; ++row) {
    const std::vector<float> wanted = {9, at(1, row), at(2, row), 9, 9, at(1, row), at(2, row)};
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(out[row * 7 + i], wanted[i]) << row << " " << i;
  }
  const auto tile = run.Get<float>(tiled);
  for (size_t i = 0; i < tile.size(); ++i) EXPECT_EQ(tile[i], at(i / 12 % 4, i % 12 % 6));
  EXPECT_EQ(run.Get<float>(view), (std::vector<float>{3, 5, 7, 10, 12, 14}));
}

TEST_P(GuidTest, GathersAndScatters) {
  GraphBuilder b;
  const uint32_t table = b.Persistent({5, 7});
  const uint32_t index = b.Persistent({3, 2}, syn_type_int32);
  const uint32_t rows = b.Persistent({5, 3, 2});
  const uint32_t flat = b.Persistent({4}, syn_type_int32);
  const uint32_t source = b.Persistent({5, 4});
  const uint32_t copied = b.Persistent({5, 7});
  b.Node("embedding_pt_fwd_f32", {table, index}, {rows});
  b.Node("index_copy_fwd_f32", {table, flat, source}, {copied}, ns_IndexCopy_Params{1});
  GraphRun run(b.graph);
  const auto ts = RandomFloats(35);
  const auto ss = RandomFloats(20, 2);
  const std::vector<int32_t> is = {6, 0, 3, 3, 1, 5};
  const std::vector<int32_t> fs = {2, 6, 0, 2};
  run.Set(table, ts);
  run.Set(index, is);
  run.Set(flat, fs);
  run.Set(source, ss);
  RunOrFail(run);
  const auto out = run.Get<float>(rows);
  for (size_t i = 0; i < 6; ++i) {
    for (size_t c = 0; c < 5; ++c) EXPECT_EQ(out[i * 5 + c], ts[size_t(is[i]) * 5 + c]);
  }
  auto wanted = ts;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t c = 0; c < 5; ++c) wanted[size_t(fs[i]) * 5 + c] = ss[i * 5 + c];
  }
  EXPECT_EQ(run.Get<float>(copied), wanted);
}

TEST_P(GuidTest, PoolingWithPadding) {
  const size_t w = 7, h = 5, c = 3;
  for (const bool channels_last : {false, true}) {
    GraphBuilder b;
    const uint32_t given = b.Persistent(channels_last ? Dims{c, w, h, 1} : Dims{w, h, c, 1});
    uint32_t x = given;
    if (channels_last) {
      x = b.Temporary({w, h, c, 1});
      b.Node("transpose", {given}, {x}, synTransposeParams{{1, 2, 0, 3, 0}, 4});
    }
    const uint32_t maximum = b.Persistent({4, 3, c, 1});
    const uint32_t index = b.Persistent({4, 3, c, 1}, syn_type_int32);
    const uint32_t average = b.Persistent({4, 3, c, 1});
    const ns_SpatialReduction_Params pool{1, 1, 1, 1, 3, 3, 2, 2, 1, 1, NS_POOLING_VALID};
    b.Node("pt_maxpool_2d_fwd_f32", {x}, {maximum, index}, pool);
    ns_AveragePoolingWithDivisorOverride_Params mean{};
    std::memcpy(&mean, &pool, sizeof(pool));
    b.Node("avg_pool_2d_fwd_f32", {x}, {average}, mean);
    GraphRun run(b.graph);
    const auto xs = RandomFloats(w * h * c);
    run.Set(given, xs);
    RunOrFail(run);
    const auto at = [&](size_t i, size_t j, size_t k) {
      return channels_last ? xs[(i * w + j) * c + k] : xs[(k * h + i) * w + j];
    };
    for (size_t k = 0; k < c; ++k) {
      for (size_t i = 0; i < 3; ++i) {
        for (size_t j = 0; j < 4; ++j) {
          float best = -1e9f;
          int32_t where = 0;
          double sum = 0;
          int count = 0;
          for (int di = -1; di < 2; ++di) {
            for (int dj = -1; dj < 2; ++dj) {
              const int y = int(2 * i) + di, z = int(2 * j) + dj;
              if (y < 0 || z < 0 || y >= int(h) || z >= int(w)) continue;
              const float v = at(size_t(y), size_t(z), k);
              if (v > best) {
                best = v;
                where = y * int(w) + z;
              }
              sum += v;
              ++count;
            }
          }
          const size_t o = (k * 3 + i) * 4 + j;
          EXPECT_EQ(run.Get<float>(maximum)[o], best);
          EXPECT_EQ(run.Get<int32_t>(index)[o], where);
          EXPECT_NEAR(run.Get<float>(average)[o], sum / count, 1e-5);
        }
      }
    }
  }
}

TEST_P(GuidTest, BatchAndGroupNorm) {
  const size_t w = 3, h = 2, c = 4, n = 2;
  GraphBuilder b;
  const uint32_t x = b.Persistent({w, h, c, n});
  std::vector<uint32_t> vectors;
  for (int i = 0; i < 4; ++i) vectors.push_back(b.Persistent({c}));
  const uint32_t batch = b.Persistent({w, h, c, n});
  const uint32_t group = b.Persistent({w, h, c, n});
  b.Node("batch_norm_inf_f32", {x, vectors[0], vectors[1], vectors[2], vectors[3]}, {batch},
         ns_BatchNormKernel_Params{{0}, 0.1f, 1e-5f});
  b.Node("native_group_norm_fwd_f32", {x, vectors[1], vectors[0]},
         {group, b.Temporary({2, n}), b.Temporary({2, n})}, ns_NativeGroupNorm_Params{n, 2, 1e-5f});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(w * h * c * n);
  run.Set(x, xs);
  std::vector<std::vector<float>> vs;
  for (uint32_t i = 0; i < 4; ++i) {
    vs.push_back(RandomFloats(c, i + 5, 0.5f, 2));
    run.Set(vectors[i], vs.back());
  }
  RunOrFail(run);
  std::vector<float> wanted_batch(xs.size());
  std::vector<float> wanted_group(xs.size());
  const size_t group_size = w * h * c / 2;
  for (size_t i = 0; i < xs.size(); ++i) {
    const size_t k = i / (w * h) % c;
    wanted_batch[i] = (xs[i] - vs[2][k]) / std::sqrt(vs[3][k] + 1e-5f) * vs[1][k] + vs[0][k];
    const size_t begin = i / group_size * group_size;
    double mean = 0;
    double variance = 0;
    for (size_t j = begin; j < begin + group_size; ++j) mean += xs[j] / double(group_size);
    for (size_t j = begin; j < begin + group_size; ++j) {
      variance += (xs[j] - mean) * (xs[j] - mean) / double(group_size);
    }
    wanted_group[i] =
        static_cast<float>((xs[i] - mean) / std::sqrt(variance + 1e-5) * vs[1][k] + vs[0][k]);
  }
  ExpectNear(run.Get<float>(batch), wanted_batch, 1e-5);
  ExpectNear(run.Get<float>(group), wanted_group, 1e-5);
}

TEST_P(GuidTest, ConvolutionWithBiasAndRelu) {
  const size_t w = 6, h = 5, c = 4, k = 8, n = 2;
  GraphBuilder b;
  const uint32_t x = b.Persistent({c, w, h, n});
  const uint32_t weights = b.Persistent({k, c, 3, 3});
  const uint32_t bias = b.Persistent({k});
  const uint32_t y = b.Temporary({k, w, h, n});
  const uint32_t out = b.Persistent({k, w, h, n});
  synConvolutionParams params{};
  params.kW = params.kH = 3;
  params.dW = params.dH = 1;
  params.padL = params.padR = params.padT = params.padB = 1;
  params.dilW = params.dilH = 1;
  params.nGroups = 1;
  b.Node("spatial_convolution", {x, weights, bias}, {y}, params);
  b.Node("relu_fwd_f32", {y}, {out});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(c * w * h * n);
  const auto ws = RandomFloats(k * c * 9, 2);
  const auto bs = RandomFloats(k, 3);
  run.Set(x, xs);
  run.Set(weights, ws);
  run.Set(bias, bs);
  RunOrFail(run);
  std::vector<float> wanted(k * w * h * n);
  for (size_t o = 0; o < wanted.size(); ++o) {
    const size_t ko = o % k, ow = o / k % w, oh = o / (k * w) % h, on = o / (k * w * h);
    double sum = bs[ko];
    for (size_t r = 0; r < 3; ++r) {
      for (size_t s = 0; s < 3; ++s) {
        const int ih = int(oh + r) - 1, iw = int(ow + s) - 1;
        if (ih < 0 || iw < 0 || ih >= int(h) || iw >= int(w)) continue;
        for (size_t ci = 0; ci < c; ++ci) {
          sum += double(xs[((on * h + size_t(ih)) * w + size_t(iw)) * c + ci]) *
                 ws[((r * 3 + s) * c + ci) * k + ko];
        }
      }
    }
    wanted[o] = static_cast<float>(std::max(sum, 0.0));
  }
  ExpectNear(run.Get<float>(out), wanted, 1e-5);
}

TEST_P(GuidTest, AttentionMatchesItsDefinition) {
  const size_t d = 8, nq = 5, nk = 7, heads = 4, batch = 2;
  GraphBuilder b;
  const uint32_t q = b.Persistent({d, nq, heads, batch});
  const uint32_t k = b.Persistent({d, nk, 2, batch});
  const uint32_t v = b.Persistent({d, nk, 2, batch});
  const uint32_t mask = b.Persistent({nk, nq, 1, 1});
  const uint32_t out = b.Persistent({d, nq, heads, batch});
  ns_Sdpa_Params params{};
  params.scale = 0.3f;
  b.Node("sdpa_recomp_fwd_f32", {q, k, v, mask}, {out}, params);
  GraphRun run(b.graph);
  const auto qs = RandomFloats(d * nq * heads * batch);
  const auto ks = RandomFloats(d * nk * 2 * batch, 2);
  const auto vs = RandomFloats(d * nk * 2 * batch, 3);
  const auto ms = RandomFloats(nk * nq, 4);
  run.Set(q, qs);
  run.Set(k, ks);
  run.Set(v, vs);
  run.Set(mask, ms);
  RunOrFail(run);
  std::vector<float> wanted(qs.size());
  for (size_t bh = 0; bh < batch * heads; ++bh) {
    const size_t kv = bh / heads * 2 + bh % heads / 2;
    for (size_t i = 0; i < nq; ++i) {
      std::vector<double> p(nk);
      double sum = 0;
      for (size_t j = 0; j < nk; ++j) {
        double s = 0;
        for (size_t l = 0; l < d; ++l)
          s += double(qs[(bh * nq + i) * d + l]) * ks[(kv * nk + j) * d + l];
        p[j] = std::exp(s * 0.3f + ms[i * nk + j]);
        sum += p[j];
      }
      for (size_t l = 0; l < d; ++l) {
        double o = 0;
        for (size_t j = 0; j < nk; ++j) o += p[j] / sum * vs[(kv * nk + j) * d + l];
        wanted[(bh * nq + i) * d + l] = static_cast<float>(o);
      }
    }
  }
  ExpectNear(run.Get<float>(out), wanted, 1e-5);
}

TEST_P(GuidTest, BilinearAndNearestResize) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({3, 2, 1, 1});
  const uint32_t linear = b.Persistent({6, 4, 1, 1});
  const uint32_t nearest = b.Persistent({6, 4, 1, 1});
  ns_ResizeKernel_Params params{};
  params.mode = NS_RESIZE_LINEAR;
  params.coordTransMode = NS_RESIZE_COORD_PYTORCH_HALF_PIXEL;
  params.size1 = 6;
  params.size2 = 4;
  b.Node("resize_fwd_f32", {x}, {linear}, params);
  params.mode = NS_RESIZE_NEAREST;
  params.coordTransMode = NS_RESIZE_COORD_ASYMMETRIC;
  params.nearestMode = NS_RESIZE_NEAREST_FLOOR;
  b.Node("resize_fwd_f32", {x}, {nearest}, params);
  GraphRun run(b.graph);
  const std::vector<float> xs = {1, 2, 3, 4, 5, 6};
  run.Set(x, xs);
  RunOrFail(run);
  std::vector<float> wanted_linear;
  std::vector<float> wanted_nearest;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 6; ++j) {
      const double y = std::max((double(i) + 0.5) / 2 - 0.5, 0.0);
      const double z = std::max((double(j) + 0.5) / 2 - 0.5, 0.0);
      const auto at = [&](size_t r, size_t c) {
        return double(xs[std::min<size_t>(r, 1) * 3 + std::min<size_t>(c, 2)]);
      };
      const auto r = size_t(y), c = size_t(z);
      const double fy = y - double(r), fz = z - double(c);
      wanted_linear.push_back(
          static_cast<float>((at(r, c) * (1 - fz) + at(r, c + 1) * fz) * (1 - fy) +
                             (at(r + 1, c) * (1 - fz) + at(r + 1, c + 1) * fz) * fy));
      wanted_nearest.push_back(xs[i / 2 * 3 + j / 2]);
    }
  }
  ExpectNear(run.Get<float>(linear), wanted_linear, 1e-6);
  ExpectNear(run.Get<float>(nearest), wanted_nearest, 0);
}

TEST(InferShapesTest, FillsSizesAndRefusesMisfits) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({4, 3});
  const uint32_t y = b.Persistent({4, 1});
  const uint32_t sum = b.Inferred();
  b.Node("add_fwd_f32", {x, y}, {sum});
  const uint32_t product = b.Inferred();
  b.Node("gemm", {sum, x}, {product}, synGEMMParams{0, 1});
  ASSERT_TRUE(InferShapes(b.graph).ok());
  EXPECT_EQ(b.graph.tensors[sum].sizes, (Dims{4, 3}));
  EXPECT_EQ(b.graph.tensors[product].sizes, (Dims{3, 3}));

  GraphBuilder bad;
  bad.Node("gemm", {bad.Persistent({4, 3}), bad.Persistent({4, 3})}, {bad.Inferred()},
           synGEMMParams{0, 0});
  const absl::Status status = InferShapes(bad.graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "node 'gemm0' (gemm): inner sizes 4 and 3 differ");
  EXPECT_FALSE(IsKnownGuid("no_such_kernel_f32"));
  EXPECT_TRUE(IsKnownGuid("cast_f32_to_bf16"));
}

}  // namespace
}  // namespace hpu::emulator
