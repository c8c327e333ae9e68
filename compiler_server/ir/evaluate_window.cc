// Evaluates what reads windows: convolutions, pooling and resizing.
#include <algorithm>
#include <cmath>

#include "compiler_server/ir/evaluate.h"

namespace hpu::ir::evaluate {
namespace {

// Calls f(window position of x, i.e. spatial index) for every kernel element of the output position
// that is inside x. The spatial sizes are dims 1..n of `x_sizes`.
template <typename F>
void ForWindow(const Node& node, const Dims& x_sizes, const Dims& kernel, const IndexWalk& at,
               F f) {
  const size_t spatial = kernel.size();
  const Dims& stride = node.Ints(AttrKey::kStride);
  const Dims& pads = node.Ints(AttrKey::kPads);
  const bool dilated = node.attrs.Find(AttrKey::kDilation) != nullptr;
  const Dims dilation = dilated ? node.Ints(AttrKey::kDilation) : Dims(spatial, 1);
  IndexWalk tap(kernel);
  Dims position(spatial);
  for (int64_t n = 0; n < NumElements(kernel); ++n) {
    bool inside = true;
    for (size_t i = 0; i < spatial; ++i) {
      position[i] = at[i + 1] * stride[i] + tap[i] * dilation[i] - pads[2 * i];
      inside = inside && position[i] >= 0 && position[i] < x_sizes[i + 1];
    }
    if (inside) f(n, position);
    tap.Next();
  }
}

int64_t Offset(const Dims& sizes, int64_t batch, const Dims& position, int64_t channel) {
  int64_t offset = batch;
  for (size_t i = 0; i < position.size(); ++i) offset = offset * sizes[i + 1] + position[i];
  return offset * sizes.back() + channel;
}

// Weights are [kernel..., depth, filters]. Every filter reads the `depth` channels of its group.
struct Filters {
  Filters(const HostTensor& weight_in, int64_t groups)
      : weight(weight_in),
        kernel(weight.sizes.begin(), weight.sizes.end() - 2),
        count(weight.sizes.back()),
        depth(weight.sizes[kernel.size()]),
        per_group(count / groups) {}
  int64_t Index(int64_t tap, int64_t c, int64_t filter) const {
    return (tap * depth + c) * count + filter;
  }
  double At(int64_t tap, int64_t c, int64_t filter) const {
    return weight.data[Index(tap, c, filter)];
  }
  int64_t Channel(int64_t c, int64_t filter) const { return filter / per_group * depth + c; }

  const HostTensor& weight;
  const Dims kernel;
  const int64_t count;
  const int64_t depth;
  const int64_t per_group;
};

void Conv(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& x = *in[0];
  const Filters filters(*in[1], node.Int(AttrKey::kGroups));
  IndexWalk walk(out.sizes);
  for (double& value : out.data) {
    const int64_t filter = walk[out.sizes.size() - 1];
    double sum = 0;
    ForWindow(node, x.sizes, filters.kernel, walk, [&](int64_t tap, const Dims& position) {
      for (int64_t c = 0; c < filters.depth; ++c) {
        sum += x.data[Offset(x.sizes, walk[0], position, filters.Channel(c, filter))] *
               filters.At(tap, c, filter);
      }
    });
    value = RoundTo(out.dtype, sum);
    walk.Next();
  }
}

// Spreads every element of x over the window that the convolution would have read.
void ConvTranspose(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& x = *in[0];
  const Filters filters(*in[1], node.Int(AttrKey::kGroups));
  IndexWalk walk(x.sizes);
  for (double value : x.data) {
    const int64_t filter = walk[x.sizes.size() - 1];
    ForWindow(node, out.sizes, filters.kernel, walk, [&](int64_t tap, const Dims& position) {
      for (int64_t c = 0; c < filters.depth; ++c) {
        out.data[Offset(out.sizes, walk[0], position, filters.Channel(c, filter))] +=
            value * filters.At(tap, c, filter);
      }
    });
    walk.Next();
  }
  for (double& value : out.data) value = RoundTo(out.dtype, value);
}

void ConvWeightGradient(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& gradient = *in[0];
  const HostTensor& x = *in[1];
  const Filters filters(out, node.Int(AttrKey::kGroups));
  IndexWalk walk(gradient.sizes);
  for (double value : gradient.data) {
    const int64_t filter = walk[gradient.sizes.size() - 1];
    ForWindow(node, x.sizes, filters.kernel, walk, [&](int64_t tap, const Dims& position) {
      for (int64_t c = 0; c < filters.depth; ++c) {
        out.data[filters.Index(tap, c, filter)] +=
            value * x.data[Offset(x.sizes, walk[0], position, filters.Channel(c, filter))];
      }
    });
    walk.Next();
  }
  for (double& value : out.data) value = RoundTo(out.dtype, value);
}

// The number of window elements that count for an average, which are those in the padded input.
int64_t PaddedCount(const Node& node, const Dims& x_sizes, const Dims& kernel,
                    const IndexWalk& at) {
  const Dims& stride = node.Ints(AttrKey::kStride);
  const Dims& pads = node.Ints(AttrKey::kPads);
  int64_t count = 1;
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t start = at[i + 1] * stride[i] - pads[2 * i];
    const int64_t end = std::min(start + kernel[i], x_sizes[i + 1] + pads[2 * i + 1]);
    count *= end - start;
  }
  return count;
}

void Pool(const Node& node, const HostTensor& x, HostTensor& out) {
  const Dims& kernel = node.Ints(AttrKey::kKernel);
  const bool average = node.op == OpKind::kAvgPool;
  IndexWalk walk(out.sizes);
  for (double& value : out.data) {
    double result = average ? 0 : -INFINITY;
    int64_t count = 0;
    int64_t place = 0;
    ForWindow(node, x.sizes, kernel, walk, [&](int64_t, const Dims& position) {
      const double element = x.data[Offset(x.sizes, walk[0], position, walk[x.sizes.size() - 1])];
      if (average) {
        result += element;
      } else if (!(element <= result)) {
        result = element;
        place = position[0] * x.sizes[2] + position[1];
      }
      ++count;
    });
    if (average) {
      if (node.Bool(AttrKey::kCountPadding)) count = PaddedCount(node, x.sizes, kernel, walk);
      if (node.Int(AttrKey::kDivisor) != 0) count = node.Int(AttrKey::kDivisor);
      result /= static_cast<double>(count);
    }
    value =
        node.op == OpKind::kMaxPoolIndex ? static_cast<double>(place) : RoundTo(out.dtype, result);
    walk.Next();
  }
}

// Adds every window's gradient to the place of its maximum.
void MaxPoolGradient(const HostTensor& gradient, const HostTensor& index, HostTensor& out) {
  IndexWalk walk(gradient.sizes);
  for (size_t i = 0; i < gradient.data.size(); ++i) {
    const auto place = static_cast<int64_t>(index.data[i]);
    const Dims position = {place / out.sizes[2], place % out.sizes[2]};
    out.data[Offset(out.sizes, walk[0], position, walk[3])] += gradient.data[i];
    walk.Next();
  }
  for (double& value : out.data) value = RoundTo(out.dtype, value);
}

void AdaptivePool(const HostTensor& x, HostTensor& out) {
  IndexWalk walk(out.sizes);
  const auto start = [&](size_t d) { return walk[d] * x.sizes[d] / out.sizes[d]; };
  const auto end = [&](size_t d) {
    return ((walk[d] + 1) * x.sizes[d] + out.sizes[d] - 1) / out.sizes[d];
  };
  for (double& value : out.data) {
    double sum = 0;
    for (int64_t h = start(1); h < end(1); ++h) {
      for (int64_t w = start(2); w < end(2); ++w) {
        sum += x.data[Offset(x.sizes, walk[0], {h, w}, walk[3])];
      }
    }
    const auto count = static_cast<double>((end(1) - start(1)) * (end(2) - start(2)));
    value = RoundTo(out.dtype, sum / count);
    walk.Next();
  }
}

// The source coordinate of an output coordinate, as PyTorch computes it.
struct Sample {
  int64_t low = 0;
  int64_t high = 0;
  double weight = 0;  // the weight of `high`
};
Sample SampleAt(const Node& node, int64_t at, int64_t in, int64_t out) {
  const double ratio = static_cast<double>(in) / static_cast<double>(out);
  Sample sample;
  if (node.Text(AttrKey::kMode) != "linear") {
    const double shift = node.Text(AttrKey::kMode) == "nearest" ? 0 : 0.5;
    sample.low = std::min(static_cast<int64_t>((static_cast<double>(at) + shift) * ratio), in - 1);
    sample.high = sample.low;
    return sample;
  }
  double position = 0;
  if (node.Bool(AttrKey::kAlignCorners)) {
    position = out > 1 ? static_cast<double>(at * (in - 1)) / static_cast<double>(out - 1) : 0;
  } else {
    position = std::max((static_cast<double>(at) + 0.5) * ratio - 0.5, 0.0);
  }
  sample.low = std::min(static_cast<int64_t>(position), in - 1);
  sample.high = std::min(sample.low + 1, in - 1);
  sample.weight = position - static_cast<double>(sample.low);
  return sample;
}

void Resize(const Node& node, const HostTensor& x, HostTensor& out) {
  IndexWalk walk(out.sizes);
  for (double& value : out.data) {
    const Sample h = SampleAt(node, walk[1], x.sizes[1], out.sizes[1]);
    const Sample w = SampleAt(node, walk[2], x.sizes[2], out.sizes[2]);
    const auto at = [&](int64_t row, int64_t column) {
      return x.data[Offset(x.sizes, walk[0], {row, column}, walk[3])];
    };
    const double top = at(h.low, w.low) * (1 - w.weight) + at(h.low, w.high) * w.weight;
    const double bottom = at(h.high, w.low) * (1 - w.weight) + at(h.high, w.high) * w.weight;
    value = RoundTo(out.dtype, top * (1 - h.weight) + bottom * h.weight);
    walk.Next();
  }
}

}  // namespace

void Convolution(const Node& node, Operands in, HostTensor& out) {
  switch (node.op) {
    case OpKind::kConv:
      return Conv(node, in, out);
    case OpKind::kConvTranspose:
      return ConvTranspose(node, in, out);
    case OpKind::kConvWeightGradient:
      return ConvWeightGradient(node, in, out);
    default:
      HPU_CHECK(false, "contraction without evaluation");
  }
}

void Window(const Node& node, Operands in, HostTensor& out) {
  switch (node.op) {
    case OpKind::kAdaptiveAvgPool:
      return AdaptivePool(*in[0], out);
    case OpKind::kMaxPoolGradient:
      return MaxPoolGradient(*in[0], *in[1], out);
    case OpKind::kResize:
      return Resize(node, *in[0], out);
    default:
      return Pool(node, *in[0], out);
  }
}

}  // namespace hpu::ir::evaluate
