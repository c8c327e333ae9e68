// Reductions and scans.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

constexpr std::string_view kSelf = "self";
constexpr std::string_view kDim = "dim";
constexpr std::string_view kKeepdim = "keepdim";

int64_t CountOf(const Value* x, const Dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= x->type.sizes[dim];
  return count;
}

// sum, mean, prod, amax, amin: (x, dim, keepdim), computed in the result's type.
void ReduceTo(Call& call, OpKind op) {
  Value* x = call.Operand(kSelf, call.dtype());
  const Dims dims = call.ReducedDims(kDim, x->type.rank());
  call.Return(call.b.Reduce(op, x, dims, call.Bool(kKeepdim)));
}
void Sum(Call& call) { ReduceTo(call, OpKind::kReduceSum); }
void Mean(Call& call) { ReduceTo(call, OpKind::kReduceMean); }
void Amax(Call& call) { ReduceTo(call, OpKind::kReduceMax); }
void Amin(Call& call) { ReduceTo(call, OpKind::kReduceMin); }
void ProdDim(Call& call) { ReduceTo(call, OpKind::kReduceProd); }

// Over everything: (x), with dtype by keyword if at all.
void ReduceAll(Call& call, OpKind op) {
  Value* x = call.Operand(kSelf, call.dtype());
  call.Return(call.b.Reduce(op, x, Call::AllDims(x->type.rank()), false));
}
void SumAll(Call& call) { ReduceAll(call, OpKind::kReduceSum); }
void MeanAll(Call& call) { ReduceAll(call, OpKind::kReduceMean); }
void MaxAll(Call& call) { ReduceAll(call, OpKind::kReduceMax); }
void MinAll(Call& call) { ReduceAll(call, OpKind::kReduceMin); }
void ProdAll(Call& call) { ReduceAll(call, OpKind::kReduceProd); }

void ArgReduce(Call& call, OpKind op) {
  Value* x = call.Tensor(kSelf);
  bool keepdim = call.Bool(kKeepdim);
  int64_t dim = 0;
  if (call.Has(kDim)) {
    dim = call.Dim(kDim, x->type.rank());
  } else {
    if (keepdim) return call.Refuse("keepdim without dim");
    x = call.b.Reshape(x, {x->type.elements()});
  }
  call.Return(call.b.Reduce(op, x, {dim}, keepdim));
}
void Argmax(Call& call) { ArgReduce(call, OpKind::kArgmax); }
void Argmin(Call& call) { ArgReduce(call, OpKind::kArgmin); }

// max.dim, min.dim: values and indices.
void ExtremeWithIndex(Call& call, OpKind op, OpKind by_index) {
  Value* x = call.Tensor(kSelf);
  const bool truth = x->type.dtype == DType::kBool;
  if (truth) x = call.b.Cast(x, DType::kI32);
  const Dims dims = {call.Dim(kDim, x->type.rank())};
  const bool keepdim = call.Bool(kKeepdim);
  Value* value = call.used(0) ? call.b.Reduce(op, x, dims, keepdim) : nullptr;
  Value* index = call.used(1) ? call.b.Reduce(by_index, x, dims, keepdim) : nullptr;
  if (truth && value != nullptr) value = call.b.Cast(value, DType::kBool);
  call.Return({value, index});
}
void MaxDim(Call& call) { ExtremeWithIndex(call, OpKind::kReduceMax, OpKind::kArgmax); }
void MinDim(Call& call) { ExtremeWithIndex(call, OpKind::kReduceMin, OpKind::kArgmin); }

// any = max, all = min of x != 0, in a type that reductions take.
void Truth(Call& call, OpKind op, const Dims& dims, bool keepdim) {
  Value* x = call.b.Cast(call.b.Cast(call.Tensor(kSelf), DType::kBool), DType::kI32);
  call.Return(call.b.Cast(call.b.Reduce(op, x, dims, keepdim), call.dtype()));
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

Value* Variance(Call& call, Value* x, const Dims& dims, double correction, bool keepdim,
                Value** mean_out) {
  Value* mean = call.b.Reduce(OpKind::kReduceMean, x, dims, true);
  Value* centred = call.b.Binary(OpKind::kSub, x, mean);
  Value* square = call.b.Binary(OpKind::kMul, centred, centred);
  const double degrees = std::max(0.0, static_cast<double>(CountOf(x, dims)) - correction);
  Value* sum = call.b.Reduce(OpKind::kReduceSum, square, dims, keepdim);
  if (mean_out != nullptr) {
    *mean_out = keepdim ? mean : call.b.Reshape(mean, sum->type.sizes);
  }
  return call.b.Binary(OpKind::kMul, sum, 1 / degrees);
}

struct Moments {
  Value* variance = nullptr;
  Value* mean = nullptr;
};
Moments MomentsOf(Call& call, DType dtype) {
  Value* x = call.b.Cast(call.Tensor(kSelf), dtype);
  const bool by_correction = call.target().ends_with(".correction");
  const bool whole = call.target().ends_with(".default");
  const double correction =
      by_correction ? call.Float("correction", 1) : (call.Bool("unbiased") ? 1.0 : 0.0);
  const bool keepdim = !whole && call.Bool(kKeepdim);
  const Dims dims = whole ? Call::AllDims(x->type.rank()) : call.ReducedDims(kDim, x->type.rank());
  Moments moments;
  if (call.refused()) return moments;
  moments.variance = Variance(call, x, dims, correction, keepdim, &moments.mean);
  return moments;
}
void Var(Call& call) { call.Return(MomentsOf(call, call.dtype()).variance); }
void Std(Call& call) {
  Value* variance = MomentsOf(call, call.dtype()).variance;
  if (variance != nullptr) call.Return(call.b.Unary(OpKind::kSqrt, variance));
}
void VarMean(Call& call) {
  const Moments moments = MomentsOf(call, call.dtype());
  call.Return({moments.variance, moments.mean});
}
void StdMean(Call& call) {
  const Moments moments = MomentsOf(call, call.dtype());
  if (moments.variance == nullptr) return;
  call.Return({call.b.Unary(OpKind::kSqrt, moments.variance), moments.mean});
}

// (sum |x|^p)^(1/p) and its limits.
void EmitNorm(Call& call, double order, const Dims& dims, bool keepdim) {
  Value* x = call.b.Cast(call.Tensor(kSelf), call.dtype());
  if (order == 2) {
    Value* sum =
        call.b.Reduce(OpKind::kReduceSum, call.b.Binary(OpKind::kMul, x, x), dims, keepdim);
    return call.Return(call.b.Unary(OpKind::kSqrt, sum));
  }
  Value* size = call.b.Unary(OpKind::kAbs, x);
  if (order == 1) return call.Return(call.b.Reduce(OpKind::kReduceSum, size, dims, keepdim));
  if (std::isinf(order)) {
    const OpKind op = order > 0 ? OpKind::kReduceMax : OpKind::kReduceMin;
    return call.Return(call.b.Reduce(op, size, dims, keepdim));
  }
  if (order == 0) return call.Refuse("norm of order 0");
  Value* sum =
      call.b.Reduce(OpKind::kReduceSum, call.b.Binary(OpKind::kPow, size, order), dims, keepdim);
  call.Return(call.b.Binary(OpKind::kPow, sum, 1 / order));
}
void VectorNorm(Call& call) {
  const Dims dims = call.ReducedDims("dim", call.Tensor(kSelf)->type.rank());
  EmitNorm(call, call.Float("ord"), dims, call.Bool("keepdim"));
}
void NormDim(Call& call) {
  const Dims dims = call.ReducedDims("dim", call.Tensor(kSelf)->type.rank());
  EmitNorm(call, call.Float("p", 2), dims, call.Bool("keepdim"));
}
void NormScalar(Call& call) {
  EmitNorm(call, call.Float("p", 2), Call::AllDims(call.Tensor(kSelf)->type.rank()), false);
}

void LogSumExp(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  const Dims dims = call.ReducedDims(kDim, x->type.rank());
  const bool keepdim = call.Bool(kKeepdim);
  Value* peak = call.b.Reduce(OpKind::kReduceMax, x, dims, true);
  // An infinite peak would make inf - inf.
  Value* infinite = call.b.Binary(OpKind::kEq, call.b.Unary(OpKind::kAbs, peak),
                                  std::numeric_limits<double>::infinity());
  Value* zero = call.b.Scalar(0, call.dtype());
  peak = call.b.Emit(OpKind::kWhere, {infinite, zero, peak});
  Value* power = call.b.Unary(OpKind::kExp, call.b.Binary(OpKind::kSub, x, peak));
  Value* sum = call.b.Unary(OpKind::kLog, call.b.Reduce(OpKind::kReduceSum, power, dims, keepdim));
  if (!keepdim) peak = call.b.Reshape(peak, sum->type.sizes);
  call.Return(call.b.Binary(OpKind::kAdd, sum, peak));
}

void Scan(Call& call, OpKind op) {
  Value* x = call.Operand(kSelf, call.dtype());
  call.Return(call.b.Emit(op, {x}, {{AttrKey::kDim, call.Dim(kDim, x->type.rank())}}));
}
void Cumsum(Call& call) { Scan(call, OpKind::kCumsum); }
void Cumprod(Call& call) { Scan(call, OpKind::kCumprod); }

constexpr HandlerRow kRows[] = {
    {"aten.all.default", All},
    {"aten.all.dim", AllDim},
    {"aten.all.dims", AllDim},
    {"aten.amax.default", Amax},
    {"aten.amin.default", Amin},
    {"aten.any.default", Any},
    {"aten.any.dim", AnyDim},
    {"aten.any.dims", AnyDim},
    {"aten.argmax.default", Argmax},
    {"aten.argmin.default", Argmin},
    {"aten.cumprod.default", Cumprod},
    {"aten.cumsum.default", Cumsum},
    {"aten.linalg_vector_norm.default", VectorNorm},
    {"aten.logsumexp.default", LogSumExp},
    {"aten.max.default", MaxAll},
    {"aten.max.dim", MaxDim},
    {"aten.mean.default", MeanAll},
    {"aten.mean.dim", Mean},
    {"aten.min.default", MinAll},
    {"aten.min.dim", MinDim},
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

std::span<const HandlerRow> ReduceRows() { return kRows; }

}  // namespace hpu::compiler
