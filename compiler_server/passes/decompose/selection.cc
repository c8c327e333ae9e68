// Rewrites calls that find elements by their order, or positions by counting the elements before
// them.
#include "compiler_server/passes/decompose/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/indexing.h"
#include "compiler_server/passes/decompose/vector_norm.h"

namespace hpu::compiler {
namespace {

constexpr DType kCount = DType::kI32;

}  // namespace

Expr EdgesBefore(Expr edges, Expr values, bool right) {
  constexpr int64_t kFewEdges = 64;
  Call& call = *edges.call;
  const int64_t last = edges.rank() - 1;
  const int64_t count = edges.sizes()[last];
  const auto is_before = [&](Expr edge, Expr x) {
    return Apply(OpKind::kLogicalNot, right ? edge > x : edge >= x);
  };
  if (count <= kFewEdges) {
    Dims row = edges.sizes();
    row.insert(row.end() - 1, 1);
    Dims column = values.sizes();
    column.push_back(1);
    const Expr before = is_before(Reshape(edges, row), Reshape(values, column));
    return call.refused() ? values : Sum(Cast(before, kCount), {before.rank() - 1}, false);
  }
  if (values.rank() == 0) values = Reshape(values, {1});
  const auto read = [&](Expr place) {
    if (last == 0) return Expr{&call, call.b.Gather(edges.value, place.value, 0)};
    return Expr{&call, call.b.Emit(OpKind::kGatherElements, {edges.value, place.value},
                                   {{AttrKey::kDim, last}})};
  };
  Expr found{&call, call.b.Full(0, kCount, values.sizes())};
  for (auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count))); step > 0;
       step /= 2) {
    const Expr next = found + static_cast<double>(step);
    const Expr edge = read(Min(next - 1.0, static_cast<double>(count - 1)));
    const Expr exists = next <= static_cast<double>(count);
    found = Where(exists & is_before(edge, values), next, found);
  }
  return found;
}

namespace {

bool Counts(int64_t elements) { return elements > 0 && elements <= INT32_MAX; }

Expr RunningSum(Expr x) {
  return {x.call, x.call->b.Emit(OpKind::kCumsum, {x.value}, {{AttrKey::kDim, int64_t{0}}})};
}
Expr Flat(Expr x) { return Reshape(x, {NumElements(x.sizes())}); }
Expr Reduced(OpKind op, Expr x, int64_t dim) {
  return {x.call, x.call->b.Reduce(op, x.value, {dim}, true)};
}
Expr Read(Expr x, Expr index) { return {x.call, x.call->b.Gather(x.value, index.value, 0)}; }

void GiveSelected(Call& call, Expr value, Expr place) {
  call.Return(
      {call.b.Reshape(value.value, call.type(0).sizes),
       call.result_count() > 1 ? call.b.Reshape(place.value, call.type(1).sizes) : nullptr});
}

struct Selected {
  Expr value;
  Expr place;
};
// Returns the k-th smallest value along a dimension, where k counts from 0. The dimension's size
// becomes 1. NaN is larger than all numbers.
Selected Smallest(Call& call, Expr x, int64_t k, int64_t dim) {
  const ir::Node* node =
      call.b.EmitNode(OpKind::kTopk, {x.value},
                      {{AttrKey::kK, k + 1}, {AttrKey::kDim, dim}, {AttrKey::kLargest, false}});
  if (call.refused()) return {x, x};
  const auto last = [&](Value* y) { return Slice({&call, y}, dim, k, k + 1); };
  return {last(node->results[0]), last(node->results[1])};
}

// kthvalue(x, k, dim, keepdim)
void KthValue(Call& call) {
  const Expr x{&call, call.Line(kSelf)};
  const int64_t dim = call.Dim("dim", x.rank());
  const int64_t k = call.Int("k");
  if (call.refused() || k < 1 || k > x.sizes()[dim]) return call.Refuse("no ", k, "-th value");
  const Selected found = Smallest(call, x, k - 1, dim);
  GiveSelected(call, found.value, found.place);
}

// The median is the lower one of two in the middle. If there is a NaN, the result is NaN and its
// place.
void GiveMedian(Call& call, Expr x, int64_t dim) {
  const int64_t size = x.sizes()[dim];
  if (size == 0) return call.Refuse("median of nothing");
  Selected found = Smallest(call, x, (size - 1) / 2, dim);
  if (IsFloat(x.dtype())) {
    const Expr nan = Apply(OpKind::kIsnan, x);
    const Expr has_nan = Reduced(OpKind::kReduceMax, Cast(nan, kCount), dim) > 0.0;
    const Expr first = Reduced(OpKind::kArgmax, Cast(nan, DType::kF32), dim);
    found.value = Where(has_nan, std::numeric_limits<double>::quiet_NaN(), found.value);
    found.place = Where(has_nan, first, found.place);
  }
  GiveSelected(call, found.value, found.place);
}

void MedianAlong(Call& call) {
  const Expr x{&call, call.Line(kSelf)};
  const int64_t dim = call.Dim("dim", x.rank());
  if (!call.refused()) GiveMedian(call, x, dim);
}
void MedianOfAll(Call& call) { GiveMedian(call, Flat({&call, call.Tensor(kSelf)}), 0); }

// Gives the number of edges before each value, where a value may be a number.
void GiveEdgesBefore(Call& call, std::string_view edges_name, std::string_view values_name,
                     bool right) {
  const DType dtype = PromotedType(call, std::array{edges_name, values_name});
  Expr edges{&call, call.Operand(edges_name, dtype)};
  const Expr values{&call, call.Operand(values_name, dtype)};
  if (call.refused() || edges.rank() == 0) return call.Refuse("search in one edge");
  if (call.Has("sorter")) {
    edges.value = call.b.Emit(OpKind::kGatherElements, {edges.value, call.Tensor("sorter")},
                              {{AttrKey::kDim, edges.rank() - 1}});
  }
  const Expr before = EdgesBefore(edges, values, right);
  if (!call.refused()) Give(call, Reshape(before, call.type().sizes));
}

// searchsorted(edges, values, out_int32, right, side, sorter), where one value may be a number
void SearchSorted(Call& call) {
  const bool right = call.Bool("right") || (call.Has("side") && call.Text("side") == "right");
  GiveEdgesBefore(call, "sorted_sequence", kSelf, right);
}
// bucketize(values, edges, out_int32, right)
void Bucketize(Call& call) { GiveEdgesBefore(call, "boundaries", kSelf, call.Bool("right")); }

struct Bounds {
  Expr low;
  Expr high;
};
// The bounds of the elements, or one around them where all are equal.
Bounds BoundsOf(Expr x) {
  Call& call = *x.call;
  const Expr least{&call, call.b.Reduce(OpKind::kReduceMin, x.value, {0}, false)};
  const Expr most{&call, call.b.Reduce(OpKind::kReduceMax, x.value, {0}, false)};
  const Expr margin = Cast(least == most, x.dtype());
  return {least - margin, most + margin};
}

// histc(x, bins, min, max). Equal bounds stand for those of the elements.
void Histogram(Call& call) {
  const Expr x = Flat(In(call, kSelf));
  const int64_t bins = call.Int("bins");
  const double low = call.Float("min");
  const double high = call.Float("max");
  if (call.refused() || low > high || bins < 1 || x.sizes()[0] == 0) {
    return call.Refuse("a histogram of ", ToText(x.value->type));
  }
  const Bounds bounds = low == high ? BoundsOf(x) : Bounds{Number(x, low), Number(x, high)};
  const Expr place = (x - bounds.low) * static_cast<double>(bins) / (bounds.high - bounds.low);
  const Expr last = Min(Apply(OpKind::kFloor, place), static_cast<double>(bins - 1));
  const Expr inside = Reshape((x >= bounds.low) & (x <= bounds.high), {x.sizes()[0], 1});
  const Expr bin_of_each{&call, call.b.Iota(0, 1, x.dtype(), bins)};
  const Expr hits = (Reshape(last, {x.sizes()[0], 1}) == bin_of_each) & inside;
  Give(call, Sum(Cast(hits, kCount), {0}, false));
}

// Returns, for each of `total` places in a row, the number of the run that it lies in. `ends` has
// the end of each run, and no end is larger than `total`.
Expr RunOfEach(Call& call, Expr ends, int64_t total) {
  const Expr one{&call, call.b.Full(1, kCount, ends.sizes())};
  Value* none = call.b.Full(0, kCount, {total + 1});
  const Expr marks{&call, AddAt(call, none, 0, ends.value, one.value)};
  return Slice(RunningSum(marks), 0, 0, total);
}

// repeat_interleave(repeats, output_size) returns each position as often as `repeats` says.
void RepeatInterleaveByTensor(Call& call) {
  const Expr repeats{&call, call.b.Cast(call.Tensor("repeats"), kCount)};
  const int64_t total = call.Int("output_size");
  if (call.refused() || repeats.rank() != 1 || repeats.sizes()[0] == 0 || !Counts(total)) {
    return call.Refuse("repeats of ", ToText(repeats.value->type));
  }
  const Expr ends = Min(RunningSum(repeats), static_cast<double>(total));
  Give(call, RunOfEach(call, ends, total));
}

// Returns, for each place of a mask (taken as one row), the number of set places before it. The
// values are limited to [0, count - 1]; the first place has 0.
Expr PlacesBefore(Expr mask, int64_t count) {
  const Expr before = RunningSum(Flat(Cast(mask, kCount))) - 1.0;
  return Min(Max(before, 0), static_cast<double>(count - 1));
}

// masked_scatter(x, mask, source): the n-th set place of the mask reads the n-th element of the
// source.
void MaskedScatter(Call& call) {
  const Dims& sizes = call.type().sizes;
  const Expr mask = Expand(Truth(call, "mask"), sizes);
  const Expr source = Flat({&call, call.Tensor("source")});
  if (call.refused() || !Counts(call.type().elements()) || !Counts(source.sizes()[0])) {
    return call.Refuse("places of ", ToText(call.type()));
  }
  const Expr given = Read(source, PlacesBefore(mask, source.sizes()[0]));
  const Expr x = Expand({&call, call.Tensor(kSelf)}, sizes);
  Give(call, Where(mask, Reshape(given, sizes), x));
}

// masked_scatter_backward(grad, mask, sizes) is the gradient of the source.
void MaskedScatterBackward(Call& call) {
  const Expr grad{&call, call.Tensor("grad_output")};
  const Expr mask = Expand(Truth(call, "mask"), grad.sizes());
  const int64_t count = call.type().elements();
  if (call.refused() || !Counts(NumElements(grad.sizes())) || !Counts(count)) {
    return call.Refuse("places of ", ToText(grad.value->type));
  }
  const Expr given = Flat(Where(mask, grad, 0.0));
  Value* zeros = call.b.Full(0, grad.dtype(), {count});
  Value* sum = AddAt(call, zeros, 0, PlacesBefore(mask, count).value, given.value);
  Give(call, Reshape({&call, sum}, call.type().sizes));
}

// The row and the column of each of the `total` elements of a triangle, row by row.
struct Triangle {
  Expr row;
  Expr column;
};
Triangle TriangleOf(Call& call, int64_t rows, int64_t columns, double offset, int64_t total,
                    bool lower) {
  const auto clamped = [&](Expr x) { return Min(Max(x, 0), static_cast<double>(columns)); };
  const Expr row = Positions(call, rows, kCount);
  const Expr first = clamped(row + offset);
  const Expr counts = lower ? clamped(row + (offset + 1)) : static_cast<double>(columns) - first;
  const Expr ends = RunningSum(counts);
  const Expr row_of_each = RunOfEach(call, ends, total);
  const Expr begin = lower ? ends - counts : ends - counts - first;
  return {row_of_each, Positions(call, total, kCount) - Read(begin, row_of_each)};
}

// tril_indices, triu_indices (rows, columns, offset)
void GiveTriangle(Call& call, bool lower) {
  const int64_t total = call.type().sizes.back();
  if (total == 0) return call.Return(call.b.Full(0, call.dtype(), call.type().sizes));
  if (call.refused() || !Counts(total)) return call.Refuse("a triangle of ", total, " elements");
  const Triangle all = TriangleOf(call, call.Int("row"), call.Int("col"),
                                  static_cast<double>(call.Int("offset")), total, lower);
  const auto one_row = [&](Expr x) { return Reshape(x, {1, total}).value; };
  Give(call, {&call, call.b.Concat({one_row(all.row), one_row(all.column)}, 0)});
}
void LowerTriangle(Call& call) { GiveTriangle(call, true); }
void UpperTriangle(Call& call) { GiveTriangle(call, false); }

// _pdist_forward(x, p): the distances of all pairs of rows, a row and a later one.
void PairDistances(Call& call) {
  const Expr x = In(call, kSelf);
  const int64_t pairs = call.type().elements();
  if (call.refused() || x.rank() != 2 || !Counts(pairs)) {
    return call.Refuse("pairs of ", ToText(x.value->type));
  }
  const int64_t rows = x.sizes()[0];
  const Triangle pair = TriangleOf(call, rows, rows, 1, pairs, /*lower=*/false);
  Give(call, VectorNorm(Read(x, pair.row) - Read(x, pair.column), call.Float("p"), {1}, false));
}

constexpr HandlerRow kSelectionRows[] = {
    {"aten._pdist_forward.default", PairDistances},
    {"aten.bucketize.Scalar", Bucketize},
    {"aten.bucketize.Tensor", Bucketize},
    {"aten.histc.default", Histogram},
    {"aten.kthvalue.default", KthValue},
    {"aten.masked_scatter.default", MaskedScatter},
    {"aten.masked_scatter_backward.default", MaskedScatterBackward},
    {"aten.median.default", MedianOfAll},
    {"aten.median.dim", MedianAlong},
    {"aten.repeat_interleave.Tensor", RepeatInterleaveByTensor},
    {"aten.searchsorted.Scalar", SearchSorted},
    {"aten.searchsorted.Tensor", SearchSorted},
    {"aten.tril_indices.default", LowerTriangle},
    {"aten.triu_indices.default", UpperTriangle},
};

}  // namespace

std::span<const HandlerRow> SelectionRows() { return kSelectionRows; }

}  // namespace hpu::compiler
