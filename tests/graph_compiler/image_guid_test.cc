// Compares pooling, norms over channels, convolution and resizing with a plain reference, at every
// ISA level.
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class ImageGuidTest : public LevelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, ImageGuidTest, testing::ValuesIn(GraphIsaLevels()));

TEST_P(ImageGuidTest, PoolingWithPadding) {
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

// The cases have windows that overlap, few around an element (written out) and many (a loop), and
// images whose channels are adjacent, apart, or apart but many enough to be copied.
TEST_P(ImageGuidTest, MaxPoolGradient) {
  struct Case {
    int32_t kernel, stride, pad;
    size_t channels;
    bool channels_last;
  };
  const size_t w = 9, h = 7;
  for (const Case& c : {Case{3, 2, 1, 3, false}, Case{3, 2, 1, 20, true}, Case{3, 2, 1, 20, false},
                        Case{2, 2, 0, 9, true}, Case{5, 1, 2, 9, false}, Case{2, 3, 0, 4, true}}) {
    const auto out_size = [&](size_t in) {
      return (in + 2 * size_t(c.pad) - size_t(c.kernel)) / size_t(c.stride) + 1;
    };
    const size_t out_w = out_size(w), out_h = out_size(h);
    GraphBuilder b;
    // Persistent tensors have their own order; views give them the node's order.
    const auto given = [&](size_t width, size_t height, synDataType type, uint32_t* view) {
      const uint32_t tensor = c.channels_last ? b.Persistent({c.channels, width, height, 1}, type)
                                              : b.Persistent({width, height, c.channels, 1}, type);
      *view = tensor;
      if (c.channels_last) {
        *view = b.Temporary({width, height, c.channels, 1}, type);
        b.Node("transpose", {tensor}, {*view}, synTransposeParams{{1, 2, 0, 3, 0}, 4});
      }
      return tensor;
    };
    uint32_t dy_view, x_view, index_view;
    const uint32_t dy = given(out_w, out_h, syn_type_float, &dy_view);
    const uint32_t x = given(w, h, syn_type_float, &x_view);
    const uint32_t index = given(out_w, out_h, syn_type_int32, &index_view);
    const uint32_t dx = b.Persistent({w, h, c.channels, 1});
    b.Node("pt_maxpool_2d_bwd_f32", {dy_view, x_view, index_view}, {dx},
           ns_SpatialReduction_Params{c.pad, c.pad, c.pad, c.pad, c.kernel, c.kernel, c.stride,
                                      c.stride, 1, 1, NS_POOLING_VALID});
    GraphRun run(b.graph);
    const size_t windows = out_w * out_h;
    const auto gradients = RandomFloats(windows * c.channels);
    std::vector<int32_t> places(windows * c.channels);
    std::vector<double> wanted(w * h * c.channels, 0.0);
    for (size_t i = 0; i < out_h; ++i) {
      for (size_t j = 0; j < out_w; ++j) {
        for (size_t k = 0; k < c.channels; ++k) {
          // Any element of the window may be its maximum.
          const auto pick = [&](size_t at, size_t size, size_t salt) {
            const int64_t start = int64_t(at) * c.stride - c.pad;
            const int64_t first = std::max<int64_t>(start, 0);
            const int64_t end = std::min<int64_t>(start + c.kernel, int64_t(size));
            return size_t(first + int64_t((i * 7 + j * 3 + k * 5 + salt) % size_t(end - first)));
          };
          const size_t place = pick(i, h, 0) * w + pick(j, w, 1);
          const size_t o =
              c.channels_last ? (i * out_w + j) * c.channels + k : (k * out_h + i) * out_w + j;
          places[o] = int32_t(place);
          wanted[k * w * h + place] += gradients[o];
        }
      }
    }
    run.Set(dy, gradients);
    run.Set(index, places);
    run.Set(x, RandomFloats(w * h * c.channels));
    RunOrFail(run);
    const std::vector<float> results = run.Get<float>(dx);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(results[i], wanted[i], 1e-5)
          << "element " << i << " of kernel " << c.kernel << ", " << c.channels << " channels";
    }
  }
}

TEST_P(ImageGuidTest, BatchAndGroupNorm) {
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

TEST_P(ImageGuidTest, ConvolutionWithBiasAndRelu) {
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

struct TransposedCase {
  // `extra` counts rows that the forward convolution drops.
  size_t kernel, stride, dilation, pad, extra;
  size_t groups = 1;
};

synConvolutionParams ParamsOf(const TransposedCase& t) {
  synConvolutionParams params{};
  params.kW = params.kH = static_cast<uint32_t>(t.kernel);
  params.dW = params.dH = static_cast<uint32_t>(t.stride);
  params.padL = params.padR = params.padT = params.padB = static_cast<int32_t>(t.pad);
  params.dilW = params.dilH = static_cast<uint32_t>(t.dilation);
  params.nGroups = static_cast<uint32_t>(t.groups);
  return params;
}

// The cases have phases with equal and with different numbers of taps, phases without taps (kernel
// below stride), dilation that does and does not divide the stride, and padding beyond the first
// tap.
TEST_P(ImageGuidTest, TransposedConvolution) {
  const size_t w = 5, h = 4, c = 6, k = 4, n = 2;
  for (const TransposedCase& t :
       {TransposedCase{2, 2, 1, 0, 0}, TransposedCase{4, 2, 1, 1, 0}, TransposedCase{3, 2, 1, 1, 1},
        TransposedCase{3, 1, 1, 1, 0}, TransposedCase{3, 1, 2, 2, 0}, TransposedCase{2, 3, 1, 0, 2},
        TransposedCase{3, 2, 2, 1, 1}, TransposedCase{3, 4, 6, 2, 0}, TransposedCase{5, 3, 2, 4, 0},
        TransposedCase{3, 2, 1, 1, 0, 2}}) {
    SCOPED_TRACE(std::to_string(t.kernel) + " stride " + std::to_string(t.stride) + " dilation " +
                 std::to_string(t.dilation) + " pad " + std::to_string(t.pad));
    const auto size = [&](size_t in) {
      return (in - 1) * t.stride + t.dilation * (t.kernel - 1) + 1 + t.extra - 2 * t.pad;
    };
    const size_t out_w = size(w), out_h = size(h);
    GraphBuilder b;
    const uint32_t x = b.Persistent({k, w, h, n});
    const uint32_t weights = b.Persistent({k, c / t.groups, t.kernel, t.kernel});
    const uint32_t y = b.Temporary({c, out_w, out_h, n});
    const uint32_t out = b.Persistent({c, out_w, out_h, n});
    b.Node("dedx", {x, weights}, {y}, ParamsOf(t));
    b.Node("relu_fwd_f32", {y}, {out});
    GraphRun run(b.graph);
    const auto xs = RandomFloats(k * w * h * n);
    const auto ws = RandomFloats(k * c / t.groups * t.kernel * t.kernel, 2);
    run.Set(x, xs);
    run.Set(weights, ws);
    RunOrFail(run);
    std::vector<double> sums(c * out_w * out_h * n);
    const size_t group_k = k / t.groups, group_c = c / t.groups;
    for (size_t i = 0; i < xs.size(); ++i) {
      const size_t ki = i % k, iw = i / k % w, ih = i / (k * w) % h, in = i / (k * w * h);
      for (size_t r = 0; r < t.kernel; ++r) {
        for (size_t s = 0; s < t.kernel; ++s) {
          const int oh = int(ih * t.stride + r * t.dilation) - int(t.pad);
          const int ow = int(iw * t.stride + s * t.dilation) - int(t.pad);
          if (oh < 0 || ow < 0 || oh >= int(out_h) || ow >= int(out_w)) continue;
          for (size_t ci = 0; ci < group_c; ++ci) {
            const size_t o =
                ((in * out_h + size_t(oh)) * out_w + size_t(ow)) * c + ki / group_k * group_c + ci;
            sums[o] += double(xs[i]) * ws[((r * t.kernel + s) * group_c + ci) * k + ki];
          }
        }
      }
    }
    std::vector<float> wanted;
    for (const double sum : sums) wanted.push_back(static_cast<float>(std::max(sum, 0.0)));
    ExpectNear(run.Get<float>(out), wanted, 1e-5);
  }
}

// The cases have strides that drop rows, dilation and groups; another node reads the result.
TEST_P(ImageGuidTest, WeightGradientOfAConvolution) {
  const size_t w = 9, h = 8, c = 6, k = 4, n = 2;
  for (const TransposedCase& t :
       {TransposedCase{3, 1, 1, 1, 0}, TransposedCase{3, 2, 1, 1, 0}, TransposedCase{1, 1, 1, 0, 0},
        TransposedCase{2, 3, 2, 1, 0}, TransposedCase{3, 2, 1, 1, 0, 2}}) {
    SCOPED_TRACE(std::to_string(t.kernel) + " stride " + std::to_string(t.stride) + " groups " +
                 std::to_string(t.groups));
    const auto size = [&](size_t in) {
      return (in + 2 * t.pad - t.dilation * (t.kernel - 1) - 1) / t.stride + 1;
    };
    const size_t out_w = size(w), out_h = size(h), group_c = c / t.groups, group_k = k / t.groups;
    GraphBuilder b;
    const uint32_t dy = b.Persistent({k, out_w, out_h, n});
    const uint32_t x = b.Persistent({c, w, h, n});
    const uint32_t dw = b.Temporary({k, group_c, t.kernel, t.kernel});
    const uint32_t out = b.Persistent({k, group_c, t.kernel, t.kernel});
    b.Node("dedw", {dy, x}, {dw}, ParamsOf(t));
    b.Node("relu_fwd_f32", {dw}, {out});
    GraphRun run(b.graph);
    const auto ys = RandomFloats(k * out_w * out_h * n);
    const auto xs = RandomFloats(c * w * h * n, 2);
    run.Set(dy, ys);
    run.Set(x, xs);
    RunOrFail(run);
    std::vector<double> sums(k * group_c * t.kernel * t.kernel);
    for (size_t i = 0; i < ys.size(); ++i) {
      const size_t ki = i % k, ow = i / k % out_w, oh = i / (k * out_w) % out_h;
      const size_t image = i / (k * out_w * out_h);
      for (size_t r = 0; r < t.kernel; ++r) {
        for (size_t s = 0; s < t.kernel; ++s) {
          const int ih = int(oh * t.stride + r * t.dilation) - int(t.pad);
          const int iw = int(ow * t.stride + s * t.dilation) - int(t.pad);
          if (ih < 0 || iw < 0 || ih >= int(h) || iw >= int(w)) continue;
          for (size_t ci = 0; ci < group_c; ++ci) {
            const size_t channel = ki / group_k * group_c + ci;
            sums[((r * t.kernel + s) * group_c + ci) * k + ki] +=
                double(ys[i]) * xs[((image * h + size_t(ih)) * w + size_t(iw)) * c + channel];
          }
        }
      }
    }
    std::vector<float> wanted;
    for (const double sum : sums) wanted.push_back(static_cast<float>(std::max(sum, 0.0)));
    ExpectNear(run.Get<float>(out), wanted, 1e-5);
  }
}

TEST_P(ImageGuidTest, BilinearAndNearestResize) {
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

}  // namespace
}  // namespace hpu::graph_compiler
