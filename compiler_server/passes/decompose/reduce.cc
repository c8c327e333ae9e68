// Rewrites reductions and scans.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/vector_norm.h"

namespace hpu::compiler {
namespace {

constexpr std::string_view kDim = "dim";
constexpr std::string_view kKeepdim = "keepdim";

int64_t CountOf(const Value* x, const Dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= x->type.sizes[dim];
  return count;
}

// Reductions of truth values are those of 0 and 1.
Value* Reduced(Call& call, OpKind op, Value* x, const Dims& dims, bool keepdim) {
  const DType dtype = x->type.dtype;
  if (dtype == DType::kBool) x = call.b.Cast(x, DType::kI32);
  return call.b.Cast(call.b.Reduce(op, x, dims, keepdim), dtype);
}

// sum, mean, prod, amax, amin: (x, dim, keepdim), computed in the result's type.
void ReduceTo(Call& call, OpKind op) {
  Value* x = call.Operand(kSelf, call.dtype());
  const Dims dims = call.ReducedDims(kDim, x->type.rank());
  call.Return(Reduced(call, op, x, dims, call.Bool(kKeepdim)));
}
void Sum(Call& call) { ReduceTo(call, OpKind::kReduceSum); }
void Mean(Call& call) { ReduceTo(call, OpKind::kReduceMean); }
void Amax(Call& call) { ReduceTo(call, OpKind::kReduceMax); }
void Amin(Call& call) { ReduceTo(call, OpKind::kReduceMin); }
void ProdDim(Call& call) { ReduceTo(call, OpKind::kReduceProd); }

// Reduces over all dimensions: (x), and dtype as a keyword argument if there is one.
void ReduceAll(Call& call, OpKind op) {
  Value* x = call.Operand(kSelf, call.dtype());
  call.Return(Reduced(call, op, x, Call::AllDims(x->type.rank()), false));
}
void SumAll(Call& call) { ReduceAll(call, OpKind::kReduceSum); }
void MeanAll(Call& call) { ReduceAll(call, OpKind::kReduceMean); }
void MaxAll(Call& call) { ReduceAll(call, OpKind::kReduceMax); }
void MinAll(Call& call) { ReduceAll(call, OpKind::kReduceMin); }
void ProdAll(Call& call) { ReduceAll(call, OpKind::kReduceProd); }

void ArgReduce(Call& call, OpKind op) {
  Value* x = call.Line(kSelf);
  if (call.Has(kDim)) {
    const int64_t dim = call.Dim(kDim, x->type.rank());
    return call.Return(call.b.Reduce(op, x, {dim}, call.Bool(kKeepdim)));
  }
  x = call.b.Reshape(x, {x->type.elements()});
  call.Return(call.b.Reshape(call.b.Reduce(op, x, {0}, false), call.type().sizes));
}
void Argmax(Call& call) { ArgReduce(call, OpKind::kArgmax); }
void Argmin(Call& call) { ArgReduce(call, OpKind::kArgmin); }

// max.dim and min.dim return values and indices.
void ExtremeWithIndex(Call& call, OpKind op, OpKind by_index) {
  Value* x = call.Line(kSelf);
  const Dims dims = {call.Dim(kDim, x->type.rank())};
  const bool keepdim = call.Bool(kKeepdim);
  Value* value = call.used(0) ? Reduced(call, op, x, dims, keepdim) : nullptr;
  if (x->type.dtype == DType::kBool) x = call.b.Cast(x, DType::kI32);
  Value* index = call.used(1) ? call.b.Reduce(by_index, x, dims, keepdim) : nullptr;
  call.Return({value, index});
}
void MaxDim(Call& call) { ExtremeWithIndex(call, OpKind::kReduceMax, OpKind::kArgmax); }
void MinDim(Call& call) { ExtremeWithIndex(call, OpKind::kReduceMin, OpKind::kArgmin); }

// aminmax(x, dim, keepdim) and _aminmax return the minimum and the maximum.
void AminMax(Call& call) {
  Value* x = call.Line(kSelf);
  const int64_t rank = x->type.rank();
  const Dims dims = call.Has(kDim) ? Dims{call.Dim(kDim, rank)} : Call::AllDims(rank);
  const bool keepdim = call.argument_count() > 1 && call.Bool(kKeepdim);
  if (call.refused()) return;
  call.Return({Reduced(call, OpKind::kReduceMin, x, dims, keepdim),
               Reduced(call, OpKind::kReduceMax, x, dims, keepdim)});
}

// any is the max and all is the min of x != 0, in a type that reductions support.
void Truth(Call& call, OpKind op, const Dims& dims, bool keepdim) {
  Value* x = call.b.Cast(call.Tensor(kSelf), DType::kBool);
  if (x->type.elements() == 0) {
    const double of_nothing = op == OpKind::kReduceMin ? 1 : 0;
    return call.Return(call.b.Full(of_nothing, call.dtype(), call.type().sizes));
  }
  call.Return(call.b.Cast(Reduced(call, op, x, dims, keepdim), call.dtype()));
}
void TruthAlong(Call& call, OpKind op) {
  Truth(call, op, call.ReducedDims(kDim, call.Tensor(kSelf)->type.rank()), call.Bool(kKeepdim));
}
void TruthOfAll(Call& call, OpKind op) {
  Truth(call, op, Call::AllDims(call.Tensor(kSelf)->type.rank()), false);
}
void AnyDim(Call& call) { TruthAlong(call, OpKind::kReduceMax); }
void AllDim(Call& call) { TruthAlong(call, OpKind::kReduceMin); }
void Any(Call& call) { TruthOfAll(call, OpKind::kReduceMax); }
void All(Call& call) { TruthOfAll(call, OpKind::kReduceMin); }

// If the result is a float narrower than f32, moments are calculated in f32: f16 has no room for
// counts, squares and sums, and the result is rounded only once.
struct Moments {
  Expr variance;
  Expr mean;
};
Moments MomentsOf(Call& call) {
  const Expr x{&call, call.b.Cast(call.Tensor(kSelf), Widened(call.dtype()))};
  const bool by_correction = call.target().ends_with(".correction");
  const bool whole = call.target().ends_with(".default");
  const double correction =
      by_correction ? call.Float("correction", 1) : (call.Bool("unbiased") ? 1.0 : 0.0);
  const bool keepdim = !whole && call.Bool(kKeepdim);
  const Dims dims = whole ? Call::AllDims(x.rank()) : call.ReducedDims(kDim, x.rank());
  if (call.refused()) return {x, x};
  const double degrees = std::max(0.0, static_cast<double>(CountOf(x.value, dims)) - correction);
  const Expr mean{&call, call.b.Reduce(OpKind::kReduceMean, x.value, dims, true)};
  const Expr centred = x - mean;
  const Expr square = centred * centred;
  const Expr sum{&call, call.b.Reduce(OpKind::kReduceSum, square.value, dims, keepdim)};
  return {sum * (1 / degrees), Reshape(mean, sum.sizes())};
}
void Var(Call& call) { Give(call, MomentsOf(call).variance); }
void Std(Call& call) { Give(call, Apply(OpKind::kSqrt, MomentsOf(call).variance)); }
void VarMean(Call& call) {
  const Moments moments = MomentsOf(call);
  Give(call, {moments.variance, moments.mean});
}
void StdMean(Call& call) {
  const Moments moments = MomentsOf(call);
  Give(call, {Apply(OpKind::kSqrt, moments.variance), moments.mean});
}

}  // namespace

Expr VectorNorm(Expr x, double order, const Dims& dims, bool keepdim) {
  const auto reduced = [&](OpKind op, Expr terms) {
    return Expr{x.call, x.call->b.Reduce(op, terms.value, dims, keepdim)};
  };
  if (order == 2) return Apply(OpKind::kSqrt, reduced(OpKind::kReduceSum, x * x));
  if (order == 0) {
    const Expr is_zero = x == 0.0;
    return reduced(OpKind::kReduceSum, Cast(Apply(OpKind::kLogicalNot, is_zero), x.dtype()));
  }
  const Expr size = Abs(x);
  if (order == 1) return reduced(OpKind::kReduceSum, size);
  if (std::isinf(order)) {
    return reduced(order > 0 ? OpKind::kReduceMax : OpKind::kReduceMin, size);
  }
  const Expr sum = reduced(OpKind::kReduceSum, Apply(OpKind::kPow, size, order));
  return Apply(OpKind::kPow, sum, 1 / order);
}

namespace {

Expr InWide(Call& call, std::string_view name) {
  return {&call, call.b.Cast(call.Tensor(name), Widened(call.dtype()))};
}
void LinalgVectorNorm(Call& call) {
  const Dims dims = call.ReducedDims("dim", call.Tensor(kSelf)->type.rank());
  Give(call, VectorNorm(InWide(call, kSelf), call.Float("ord"), dims, call.Bool("keepdim")));
}
void NormDim(Call& call) {
  const Dims dims = call.ReducedDims("dim", call.Tensor(kSelf)->type.rank());
  Give(call, VectorNorm(InWide(call, kSelf), call.Float("p", 2), dims, call.Bool("keepdim")));
}
void NormScalar(Call& call) {
  const Expr x = InWide(call, kSelf);
  Give(call, VectorNorm(x, call.Float("p", 2), Call::AllDims(x.rank()), false));
}

// dist(x, y, p): the norm of the difference
void Distance(Call& call) {
  const Expr difference = InWide(call, kSelf) - InWide(call, "other");
  Give(call, VectorNorm(difference, call.Float("p"), Call::AllDims(difference.rank()), false));
}

// nansum(x, dim, keepdim)
void NanSum(Call& call) {
  Expr x{&call, call.Tensor(kSelf)};
  const Dims dims = call.ReducedDims(kDim, x.rank());
  if (IsFloat(x.dtype())) x = Where(Apply(OpKind::kIsnan, x), 0.0, x);
  Give(call, Sum(Cast(x, WidenedFloat(call.dtype())), dims, call.Bool(kKeepdim)));
}

// count_nonzero(x, dim)
void CountNonzero(Call& call) {
  const Expr truth{&call, call.b.Cast(call.Tensor(kSelf), DType::kBool)};
  const Dims dims = call.ReducedDims(kDim, truth.rank());
  Give(call, Sum(Cast(truth, call.dtype()), dims, false));
}

void LogSumExp(Call& call) {
  const Expr x{&call, call.b.Cast(call.Tensor(kSelf), Widened(call.dtype()))};
  const Dims dims = call.ReducedDims(kDim, x.rank());
  const bool keepdim = call.Bool(kKeepdim);
  const Expr largest{&call, call.b.Reduce(OpKind::kReduceMax, x.value, dims, true)};
  // With an infinite peak the difference would be inf - inf, which is NaN.
  const Expr peak = Where(Abs(largest) == kInfinity, 0.0, largest);
  const Expr power = Exp(x - peak);
  const Expr sum = Log({&call, call.b.Reduce(OpKind::kReduceSum, power.value, dims, keepdim)});
  Give(call, sum + Reshape(peak, sum.sizes()));
}

// Emits a scan of x along the call's dimension. PyTorch scans a 0-d tensor like one of one element.
const std::vector<Value*>& EmitScan(Call& call, OpKind op, Value* x) {
  if (x->type.rank() == 0) x = call.b.Reshape(x, {1});
  const ir::Attrs dim = {{AttrKey::kDim, call.Dim(kDim, x->type.rank())}};
  return call.b.EmitNode(op, {x}, dim)->results;
}

void Scan(Call& call, OpKind op) {
  Value* x = call.Operand(kSelf, call.dtype());
  call.Return(call.b.Reshape(EmitScan(call, op, x)[0], call.type().sizes));
}
void Cumsum(Call& call) { Scan(call, OpKind::kCumsum); }
void Cumprod(Call& call) { Scan(call, OpKind::kCumprod); }

// cummax and cummin return values and indices.
void RunningExtremum(Call& call, OpKind op) {
  Value* x = call.Tensor(kSelf);
  if (x->type.dtype == DType::kBool) x = call.b.Cast(x, DType::kI32);
  const std::vector<Value*>& found = EmitScan(call, op, x);
  call.Return({call.b.Cast(call.b.Reshape(found[0], call.type(0).sizes), call.type(0).dtype),
               call.b.Reshape(found[1], call.type(1).sizes)});
}
void Cummax(Call& call) { RunningExtremum(call, OpKind::kCummax); }
void Cummin(Call& call) { RunningExtremum(call, OpKind::kCummin); }

// logcumsumexp(x, dim): each step joins runs of twice as many elements.
void LogCumsumExp(Call& call) {
  Expr x = Wide(call, call.Tensor(kSelf));
  if (x.rank() == 0) return call.Return(call.Tensor(kSelf));
  const int64_t dim = call.Dim(kDim, x.rank());
  const int64_t size = x.sizes()[dim];
  for (int64_t step = 1; step < size && !call.refused(); step *= 2) {
    const Expr first = Slice(x, dim, 0, step);
    const Expr rest = LogOfSum(Slice(x, dim, step, size), Slice(x, dim, 0, size - step));
    x = {&call, call.b.Concat({first.value, rest.value}, dim)};
  }
  Give(call, x);
}

constexpr HandlerRow kReduceRows[] = {
    {"aten._aminmax.default", AminMax},
    {"aten._aminmax.dim", AminMax},
    {"aten.all.default", All},
    {"aten.all.dim", AllDim},
    {"aten.all.dims", AllDim},
    {"aten.amax.default", Amax},
    {"aten.amin.default", Amin},
    {"aten.aminmax.default", AminMax},
    {"aten.any.default", Any},
    {"aten.any.dim", AnyDim},
    {"aten.any.dims", AnyDim},
    {"aten.argmax.default", Argmax},
    {"aten.argmin.default", Argmin},
    {"aten.count_nonzero.default", CountNonzero},
    {"aten.count_nonzero.dim_IntList", CountNonzero},
    {"aten.cummax.default", Cummax},
    {"aten.cummin.default", Cummin},
    {"aten.cumprod.default", Cumprod},
    {"aten.cumsum.default", Cumsum},
    {"aten.dist.default", Distance},
    {"aten.linalg_vector_norm.default", LinalgVectorNorm},
    {"aten.logcumsumexp.default", LogCumsumExp},
    {"aten.logsumexp.default", LogSumExp},
    {"aten.max.default", MaxAll},
    {"aten.max.dim", MaxDim},
    {"aten.mean.default", MeanAll},
    {"aten.mean.dim", Mean},
    {"aten.min.default", MinAll},
    {"aten.min.dim", MinDim},
    {"aten.nansum.default", NanSum},
    {"aten.norm.Scalar", NormScalar},
    {"aten.norm.ScalarOpt_dim", NormDim},
    {"aten.prod.default", ProdAll},
    {"aten.prod.dim_int", ProdDim},
    {"aten.std.correction", Std},
    {"aten.std.default", Std},
    {"aten.std.dim", Std},
    {"aten.std_mean.correction", StdMean},
    {"aten.sum.default", SumAll},
    {"aten.sum.dim_IntList", Sum},
    {"aten.var.correction", Var},
    {"aten.var.default", Var},
    {"aten.var.dim", Var},
    {"aten.var_mean.correction", VarMean},
};

}  // namespace

std::span<const HandlerRow> ReduceRows() { return kReduceRows; }

}  // namespace hpu::compiler
