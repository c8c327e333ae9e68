// Compares reductions, movement and indexing with a plain reference, at every ISA level.
#include <numeric>

#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class GuidTest : public LevelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, GuidTest, testing::ValuesIn(GraphIsaLevels()));

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

TEST_P(GuidTest, RunningExtremaTakeTheLastOfEqualElementsAndNan) {
  const std::vector<float> xs = {4, 2, 4, 2, 5, 1, NAN, 3, NAN, 0, -0.0f, 0, 2, 7, -INFINITY};
  for (const bool is_max : {true, false}) {
    for (const int axis : {0, 1}) {
      GraphBuilder b;
      const uint32_t x = b.Persistent({5, 3});
      const uint32_t values = b.Persistent({5, 3});
      const uint32_t places = b.Persistent({5, 3}, syn_type_int32);
      const uint32_t wide_places = b.Persistent({5, 3}, syn_type_int64);
      const char* guid = is_max ? "cummax_fwd_f32" : "cummin_fwd_f32";
      b.Node(guid, {x}, {values, places}, ns_CumMaxKernel_Params{axis});
      b.Node(guid, {x}, {b.Temporary({5, 3}), wide_places}, ns_CumMaxKernel_Params{axis});
      GraphRun run(b.graph);
      run.Set(x, xs);
      RunOrFail(run);
      const size_t step = axis == 0 ? 1 : 5;
      const size_t count = axis == 0 ? 5 : 3;
      for (size_t row = 0; row < xs.size() / count; ++row) {
        const size_t base = axis == 0 ? row * 5 : row;
        size_t best = 0;
        for (size_t i = 0; i < count; ++i) {
          const float value = xs[base + i * step];
          const float so_far = xs[base + best * step];
          if (std::isnan(value) || (is_max ? value >= so_far : value <= so_far)) best = i;
          const size_t at = base + i * step;
          EXPECT_EQ(run.Get<int32_t>(places)[at], static_cast<int32_t>(best)) << guid << at;
          EXPECT_EQ(run.Get<int64_t>(wide_places)[at], static_cast<int64_t>(best)) << guid << at;
          const float wanted = xs[base + best * step];
          const float got = run.Get<float>(values)[at];
          EXPECT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted))) << guid << at;
        }
      }
    }
  }
}

// Blocks of both sides are transposed in registers, and the remainder element by element. The bits
// are numbers of any kind (of 4 bytes signalling NaN among them).
TEST_P(GuidTest, TransposesOfAnySize) {
  const std::vector<std::pair<uint64_t, uint64_t>> sizes = {{16, 16}, {17, 33},  {33, 17},
                                                            {64, 70}, {100, 31}, {15, 40}};
  for (const auto& [width, height] : sizes) {
    for (const synDataType type : {syn_type_float, syn_type_int32, syn_type_bf16}) {
      GraphBuilder b;
      const uint32_t x = b.Persistent({width, height, 3}, type);
      const uint32_t y = b.Persistent({height, width, 3}, type);
      const uint32_t z = b.Persistent({height, 3, width}, type);
      b.Node("transpose", {x}, {y}, synTransposeParams{{1, 0, 2, 0, 0}, 3});
      b.Node("transpose", {x}, {z}, synTransposeParams{{1, 2, 0, 0, 0}, 3});
      GraphRun run(b.graph);
      const size_t count = width * height * 3;
      const auto check = [&]<typename Bits>(Bits) {
        std::vector<Bits> xs(count);
        for (size_t i = 0; i < count; ++i) {
          xs[i] = static_cast<Bits>(i % 5 == 0 && sizeof(Bits) == 4 ? 0x7f800001u + i
                                                                    : i * 40503 & 0x7f7f);
        }
        run.Set(x, xs);
        RunOrFail(run);
        const auto ys = run.Get<Bits>(y), zs = run.Get<Bits>(z);
        for (size_t n = 0; n < 3; ++n) {
          for (size_t row = 0; row < height; ++row) {
            for (size_t col = 0; col < width; ++col) {
              const Bits wanted = xs[(n * height + row) * width + col];
              ASSERT_EQ(ys[(n * width + col) * height + row], wanted) << width << 'x' << height;
              ASSERT_EQ(zs[(col * 3 + n) * height + row], wanted) << width << 'x' << height;
            }
          }
        }
      };
      if (type == syn_type_bf16) {
        check(uint16_t{});
      } else {
        check(uint32_t{});
      }
    }
  }
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
  const std::vector<int32_t> is = {6, 0, 3, -1, 7, 5};  // -1 and 7 are outside: they read 0
  const std::vector<int32_t> fs = {2, 6, 0, 2};
  run.Set(table, ts);
  run.Set(index, is);
  run.Set(flat, fs);
  run.Set(source, ss);
  RunOrFail(run);
  const auto out = run.Get<float>(rows);
  for (size_t i = 0; i < 6; ++i) {
    const bool inside = is[i] >= 0 && is[i] < 7;
    for (size_t c = 0; c < 5; ++c) {
      EXPECT_EQ(out[i * 5 + c], inside ? ts[size_t(is[i]) * 5 + c] : 0);
    }
  }
  auto wanted = ts;
  for (size_t i = 0; i < 4; ++i) {
    for (size_t c = 0; c < 5; ++c) wanted[size_t(fs[i]) * 5 + c] = ss[i * 5 + c];
  }
  EXPECT_EQ(run.Get<float>(copied), wanted);
}

// The positions of one line differ from lane to lane, and lines are longer than the vectors of any
// level and no multiple of them.
TEST_P(GuidTest, ScattersWriteNothingOutside) {
  constexpr size_t kColumns = 37;
  constexpr size_t kRows = 4;
  GraphBuilder b;
  const uint32_t table = b.Persistent({kColumns, kRows});
  const uint32_t index = b.Persistent({kColumns, 3}, syn_type_int32);
  const uint32_t source = b.Persistent({kColumns, 3});
  const uint32_t set = b.Persistent({kColumns, kRows});
  const uint32_t sum = b.Persistent({kColumns, kRows});
  b.Node("scatter_fwd_f32", {table, index, source}, {set}, ns_ScatterKernel_Params{1});
  ns_ScatterReduceKernel_Params add{};
  add.include_self = 1;
  add.mode = NS_SCATTER_REDUCE_SUM;
  b.Node("scatter_reduce_fwd_f32", {table, index, source}, {sum}, add);
  const uint32_t pairs = b.Persistent({2, 3}, syn_type_int32);
  const uint32_t updates = b.Persistent({3});
  const uint32_t by_pairs = b.Persistent({kColumns, kRows});
  b.Node("scatter_nd_onnx_fwd_f32", {table, pairs, updates}, {by_pairs});
  GraphRun run(b.graph);
  const auto ts = RandomFloats(kColumns * kRows);
  const auto ss = RandomFloats(kColumns * 3, 2);
  std::vector<int32_t> is(kColumns * 3);
  for (size_t i = 0; i < is.size(); ++i) is[i] = static_cast<int32_t>(i * 5 % 9) - 2;  // -2 .. 6
  run.Set(table, ts);
  run.Set(index, is);
  run.Set(source, ss);
  // (0, 37) and (4, -5) would be inside of the table if only the element's number counted.
  run.Set(pairs, std::vector<int32_t>{2, 36, 0, 37, 4, -5});
  run.Set(updates, std::vector<float>{50, 60, 70});
  RunOrFail(run);
  auto wanted_set = ts;
  auto wanted_sum = ts;
  for (size_t i = 0; i < is.size(); ++i) {
    if (is[i] < 0 || is[i] >= static_cast<int32_t>(kRows)) continue;
    const size_t at = static_cast<size_t>(is[i]) * kColumns + i % kColumns;
    wanted_set[at] = ss[i];
    wanted_sum[at] += ss[i];
  }
  EXPECT_EQ(run.Get<float>(set), wanted_set);
  EXPECT_EQ(run.Get<float>(sum), wanted_sum);
  auto wanted_pairs = ts;
  wanted_pairs[2 * kColumns + 36] = 50;
  EXPECT_EQ(run.Get<float>(by_pairs), wanted_pairs);
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
}  // namespace hpu::graph_compiler
