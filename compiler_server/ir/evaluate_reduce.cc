// Evaluates reductions, scans, normalisations and indexing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler_server/ir/evaluate.h"

namespace hpu::ir::evaluate {
namespace {

// Strides that map an element of x to its place in the result; they are 0 in reduced dimensions.
Dims ReducedStrides(const Dims& sizes, const Dims& dims) {
  Dims strides(sizes.size(), 0);
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) != dims.end()) continue;
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

double Start(OpKind op) {
  switch (op) {
    case OpKind::kReduceProd:
      return 1;
    case OpKind::kReduceMax:
      return -INFINITY;
    case OpKind::kReduceMin:
      return INFINITY;
    default:
      return 0;
  }
}

double Combine(OpKind op, double a, double b) {
  switch (op) {
    case OpKind::kReduceProd:
      return a * b;
    case OpKind::kReduceMax:
      return std::isnan(a) || a > b ? a : b;
    case OpKind::kReduceMin:
      return std::isnan(a) || a < b ? a : b;
    default:
      return a + b;
  }
}

// A line of elements along one dimension: base + i * stride.
struct Line {
  int64_t base;
  int64_t stride;
  int64_t count;
};

std::vector<Line> LinesAlong(const Dims& sizes, int64_t dim) {
  const int64_t stride = RowMajorStrides(sizes)[dim];
  const int64_t count = sizes[dim];
  std::vector<Line> lines;
  const int64_t outer = NumElements(std::span(sizes).first(dim));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < stride; ++i) lines.push_back({o * stride * count + i, stride, count});
  }
  return lines;
}

void ArgReduce(const Node& node, const HostTensor& x, HostTensor& out) {
  const int64_t dim = node.Ints(AttrKey::kDims)[0];
  size_t next = 0;
  for (const Line& line : LinesAlong(x.sizes, dim)) {
    int64_t best = 0;
    for (int64_t i = 1; i < line.count; ++i) {
      const double value = x.data[line.base + i * line.stride];
      const double so_far = x.data[line.base + best * line.stride];
      if (std::isnan(so_far)) break;
      const bool better = node.op == OpKind::kArgmax ? value > so_far : value < so_far;
      if (better || std::isnan(value)) best = i;
    }
    out.data[next++] = static_cast<double>(best);
  }
}

// Fills one line of the values of a cumulative maximum or minimum, and of their places.
void RunningExtremum(OpKind op, const HostTensor& x, const Line& line,
                     std::vector<HostTensor>& out) {
  int64_t best = 0;
  for (int64_t i = 0; i < line.count; ++i) {
    const int64_t at = line.base + i * line.stride;
    const double value = x.data[at];
    const double so_far = x.data[line.base + best * line.stride];
    const bool better = op == OpKind::kCummax ? value >= so_far : value <= so_far;
    if (better || std::isnan(value)) best = i;
    out[0].data[at] = x.data[line.base + best * line.stride];
    out[1].data[at] = static_cast<double>(best);
  }
}

void SoftmaxLine(const HostTensor& x, const Line& line, bool logarithm, HostTensor& out) {
  double peak = -INFINITY;
  for (int64_t i = 0; i < line.count; ++i) {
    peak = std::max(peak, x.data[line.base + i * line.stride]);
  }
  double sum = 0;
  for (int64_t i = 0; i < line.count; ++i) {
    sum += std::exp(x.data[line.base + i * line.stride] - peak);
  }
  for (int64_t i = 0; i < line.count; ++i) {
    const int64_t at = line.base + i * line.stride;
    const double shifted = x.data[at] - peak;
    out.data[at] =
        RoundTo(out.dtype, logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum);
  }
}

void NormRow(const Node& node, Operands in, int64_t base, int64_t size, HostTensor& out) {
  const double* row = in[0]->data.data() + base;
  const bool centred = node.op == OpKind::kLayerNorm;
  const double mean = centred ? std::accumulate(row, row + size, 0.0) / size : 0;
  double variance = 0;
  for (int64_t i = 0; i < size; ++i) variance += (row[i] - mean) * (row[i] - mean);
  const double scale = 1 / std::sqrt(variance / size + node.Float(AttrKey::kEps));
  for (int64_t i = 0; i < size; ++i) {
    double value = (row[i] - mean) * scale;
    if (in.size() > 1 && in[1] != nullptr) value *= in[1]->data[i];
    if (in.size() > 2 && in[2] != nullptr) value += in[2]->data[i];
    out.data[base + i] = RoundTo(out.dtype, value);
  }
}

absl::Status CheckIndex(double index, int64_t size) {
  if (index >= 0 && index < static_cast<double>(size)) return absl::OkStatus();
  return InvalidArgument("index ", index, " is outside a dimension of ", size);
}

absl::Status Gather(const Node& node, Operands in, HostTensor& out) {
  const Dims& sizes = in[0]->sizes;
  const int64_t dim = node.Int(AttrKey::kDim);
  const int64_t outer = NumElements(std::span(sizes).first(dim));
  const int64_t inner = NumElements(std::span(sizes).subspan(dim + 1));
  size_t next = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (double index : in[1]->data) {
      RETURN_IF_ERROR(CheckIndex(index, sizes[dim]));
      const auto from =
          in[0]->data.begin() + (o * sizes[dim] + static_cast<int64_t>(index)) * inner;
      std::copy(from, from + inner, out.data.begin() + next);
      next += inner;
    }
  }
  return absl::OkStatus();
}

// The element of a scatter's result where `value` is written over `old`.
double Scattered(OpKind op, double old, double value) {
  const bool nan = std::isnan(old) || std::isnan(value);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  switch (op) {
    case OpKind::kScatterAdd:
      return old + value;
    case OpKind::kScatterMul:
      return old * value;
    case OpKind::kScatterMax:
      return nan ? kNan : std::max(old, value);
    case OpKind::kScatterMin:
      return nan ? kNan : std::min(old, value);
    default:
      return value;
  }
}

// gather_elements reads, and the scatters write, the element that an index names along one
// dimension. A scatter writes nothing for an index outside of it.
absl::Status PerElement(const Node& node, Operands in, HostTensor& out) {
  const int64_t dim = node.Int(AttrKey::kDim);
  const Dims strides = RowMajorStrides(in[0]->sizes);
  const bool scatter = node.op != OpKind::kGatherElements;
  if (scatter) out.data = in[0]->data;
  IndexWalk walk(in[1]->sizes);
  for (size_t i = 0; i < in[1]->data.size(); ++i) {
    const double index = in[1]->data[i];
    const absl::Status inside = CheckIndex(index, in[0]->sizes[dim]);
    if (scatter && !inside.ok()) {
      walk.Next();
      continue;
    }
    RETURN_IF_ERROR(inside);
    const int64_t at =
        walk.Offset(strides) + (static_cast<int64_t>(index) - walk[dim]) * strides[dim];
    if (scatter) {
      out.data[at] = RoundTo(out.dtype, Scattered(node.op, out.data[at], in[2]->data[i]));
    } else {
      out.data[i] = in[0]->data[at];
    }
    walk.Next();
  }
  return absl::OkStatus();
}

void Topk(const Node& node, const HostTensor& x, std::vector<HostTensor>& out) {
  const int64_t dim = node.Int(AttrKey::kDim);
  const bool largest = node.Bool(AttrKey::kLargest);
  const std::vector<Line> results = LinesAlong(out[0].sizes, dim);
  size_t next = 0;
  if (out[0].data.empty()) return;
  for (const Line& line : LinesAlong(x.sizes, dim)) {
    std::vector<int64_t> order(line.count);
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](int64_t i) { return x.data[line.base + i * line.stride]; };
    // NaN counts as larger than all numbers; equal values keep their order.
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double first = largest ? at(a) : at(b);
      const double second = largest ? at(b) : at(a);
      return std::isnan(first) ? !std::isnan(second) : first > second;
    });
    const Line& result = results[next++];
    for (int64_t i = 0; i < result.count; ++i) {
      out[0].data[result.base + i * result.stride] = at(order[i]);
      out[1].data[result.base + i * result.stride] = static_cast<double>(order[i]);
    }
  }
}

}  // namespace

void Reduce(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& x = *in[0];
  if (node.op == OpKind::kArgmax || node.op == OpKind::kArgmin) return ArgReduce(node, x, out);
  const Dims strides = ReducedStrides(x.sizes, node.Ints(AttrKey::kDims));
  std::vector<double> sums(out.data.size(), Start(node.op));
  IndexWalk walk(x.sizes);
  for (double value : x.data) {
    double& sum = sums[walk.Offset(strides)];
    sum = Combine(node.op, sum, value);
    walk.Next();
  }
  const double count =
      out.data.empty() ? 1
                       : static_cast<double>(x.data.size()) / static_cast<double>(out.data.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    out.data[i] = RoundTo(out.dtype, node.op == OpKind::kReduceMean ? sums[i] / count : sums[i]);
  }
}

void Scan(const Node& node, Operands in, std::vector<HostTensor>& out) {
  const HostTensor& x = *in[0];
  if (x.data.empty()) return;
  const bool by_order = node.op == OpKind::kCummax || node.op == OpKind::kCummin;
  for (const Line& line : LinesAlong(x.sizes, node.Int(AttrKey::kDim))) {
    if (by_order) {
      RunningExtremum(node.op, x, line, out);
      continue;
    }
    double total = node.op == OpKind::kCumprod ? 1 : 0;
    for (int64_t i = 0; i < line.count; ++i) {
      const int64_t at = line.base + i * line.stride;
      total = node.op == OpKind::kCumprod ? total * x.data[at] : total + x.data[at];
      out[0].data[at] = RoundTo(out[0].dtype, total);
    }
  }
}

void Normalize(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& x = *in[0];
  if (x.data.empty()) return;
  if (node.op == OpKind::kSoftmax || node.op == OpKind::kLogSoftmax) {
    for (const Line& line : LinesAlong(x.sizes, node.Int(AttrKey::kDim))) {
      SoftmaxLine(x, line, node.op == OpKind::kLogSoftmax, out);
    }
    return;
  }
  const auto axes = static_cast<size_t>(node.Int(AttrKey::kAxes));
  const int64_t size = NumElements(std::span(x.sizes).last(axes));
  for (int64_t base = 0; base < x.elements(); base += size) NormRow(node, in, base, size, out);
}

absl::Status Index(const Node& node, Operands in, std::vector<HostTensor>& out) {
  switch (node.op) {
    case OpKind::kTopk:
      Topk(node, *in[0], out);
      return absl::OkStatus();
    case OpKind::kGather:
      return Gather(node, in, out[0]);
    case OpKind::kGatherElements:
    case OpKind::kScatter:
    case OpKind::kScatterAdd:
    case OpKind::kScatterMax:
    case OpKind::kScatterMin:
    case OpKind::kScatterMul:
      return PerElement(node, in, out[0]);
    default:
      HPU_CHECK(false, "index op without evaluation");
  }
}

}  // namespace hpu::ir::evaluate
