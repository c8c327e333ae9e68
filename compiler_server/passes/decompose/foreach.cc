// Rewrites calls on lists of tensors, which optimizers consist of, to the pointwise formula for
// each item.
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// The argument at a place in the schema, item by item. It is a list of tensors, a list of numbers,
// or one tensor or number for all items. Item `i` comes in the type that result `i` is calculated
// in.
class Items {
 public:
  Items(Call& call, size_t place) : call_(call), name_(call.name(place)) {
    if (call.IsTensor(name_)) {
      one_ = call.Tensor(name_);
    } else if (call.IsNumber(name_)) {
      numbers_.assign(call.result_count(), call.Float(name_));
    } else if (call.IsListOfTensors(name_)) {
      tensors_ = call.Tensors(name_);
      if (tensors_.size() != call.result_count()) call.Refuse(name_, " of another length");
    } else {
      numbers_ = call.Floats(name_);
      if (numbers_.size() != call.result_count()) call.Refuse(name_, " of another length");
    }
  }

  bool IsNumber() const { return !numbers_.empty(); }
  double number(size_t i) const { return numbers_[i]; }
  Expr operator[](size_t i) const {
    const DType declared = call_.type(i).dtype;
    const DType dtype = IsFloat(declared) ? Widened(declared) : declared;
    if (IsNumber()) return {&call_, call_.b.Scalar(numbers_[i], dtype)};
    return {&call_, call_.b.Cast(one_ != nullptr ? one_ : tensors_[i], dtype)};
  }

 private:
  Call& call_;
  std::string_view name_;
  Value* one_ = nullptr;
  std::vector<Value*> tensors_;
  std::vector<double> numbers_;
};

// `item(i)` is result i.
template <typename F>
void ForEach(Call& call, F item) {
  std::vector<Expr> results(call.result_count());
  for (size_t i = 0; i < results.size() && !call.refused(); ++i) {
    if (call.used(i)) results[i] = item(i);
  }
  Give(call, results);
}

template <OpKind op>
void Unary(Call& call) {
  const Items x(call, 0);
  if (call.refused()) return;
  ForEach(call, [&](size_t i) { return Apply(op, x[i]); });
}

void Copied(Call& call) {  // clone(x), copy(x, source)
  const Items x(call, call.target().starts_with("aten._foreach_copy") ? 1 : 0);
  if (call.refused()) return;
  ForEach(call, [&](size_t i) { return x[i]; });
}

void Zero(Call& call) {
  ForEach(call, [&](size_t i) {
    return Expr{&call, call.b.Full(0, call.type(i).dtype, call.type(i).sizes)};
  });
}

// (x, y), and alpha where the schema has it.
template <OpKind op>
void Binary(Call& call) {
  const Items x(call, 0);
  const Items y(call, 1);
  const double alpha = call.Has("alpha") ? call.Float("alpha") : 1;
  if (call.refused()) return;
  ForEach(call, [&](size_t i) { return Apply(op, x[i], alpha == 1 ? y[i] : y[i] * alpha); });
}

void Power(Call& call) {
  const Items x(call, 0);
  const Items exponent(call, 1);
  if (call.refused()) return;
  ForEach(call, [&](size_t i) {
    if (exponent.IsNumber() && exponent.number(i) == 2) return x[i] * x[i];
    if (exponent.IsNumber() && exponent.number(i) == 0.5) return Apply(OpKind::kSqrt, x[i]);
    return Apply(OpKind::kPow, x[i], exponent[i]);
  });
}

// (x, a, b, value): x + value * a * b or x + value * a / b. If `value` is a tensor, it has one
// value for each item.
template <OpKind op>
void AddProduct(Call& call) {
  const Items x(call, 0);
  const Items a(call, 1);
  const Items b(call, 2);
  if (call.refused()) return;
  if (call.IsTensor(call.name(3))) {
    const Expr values = In(call, call.name(3));
    if (values.rank() != 1) return call.Refuse("values of rank ", values.rank());
    return ForEach(call, [&](size_t i) {
      const auto at = static_cast<int64_t>(i);
      const Expr value = Cast(Reshape(Slice(values, 0, at, at + 1), {}), x[i].dtype());
      return x[i] + Apply(op, value * a[i], b[i]);
    });
  }
  const Items values(call, 3);
  if (call.refused()) return;
  ForEach(call, [&](size_t i) {
    const Expr scaled = values.number(i) == 1 ? a[i] : a[i] * values.number(i);
    return x[i] + Apply(op, scaled, b[i]);
  });
}

// (x, end, weight): calculated from the nearer end, like lerp.
void Lerp(Call& call) {
  const Items x(call, 0);
  const Items end(call, 1);
  const Items weight(call, 2);
  if (call.refused()) return;
  ForEach(call, [&](size_t i) {
    const Expr way = end[i] - x[i];
    if (weight.IsNumber()) {
      const double w = weight.number(i);
      return std::abs(w) < 0.5 ? x[i] + way * w : end[i] + way * (w - 1);
    }
    const Expr near = Abs(weight[i]) < 0.5;
    return Where(near, x[i] + way * weight[i], end[i] + way * (weight[i] - 1.0));
  });
}

// (x, ord, dtype): the norm of each item; powsum omits the root.
void EmitNorm(Call& call, bool root) {
  const Items x(call, 0);
  const double order = call.Float("ord");
  if (call.refused()) return;
  if (order == 0 || (std::isinf(order) && !root)) return call.Refuse("norm of order ", order);
  ForEach(call, [&](size_t i) {
    const Dims all = Call::AllDims(x[i].rank());
    if (std::isinf(order)) {
      const OpKind op = order > 0 ? OpKind::kReduceMax : OpKind::kReduceMin;
      return Expr{&call, call.b.Reduce(op, Abs(x[i]).value, all, false)};
    }
    const Expr size = order == 2 ? x[i] : Abs(x[i]);
    const Expr power = order == 1   ? size
                       : order == 2 ? size * size
                                    : Apply(OpKind::kPow, size, order);
    const Expr sum = Sum(power, all, false);
    if (!root || order == 1) return sum;
    return order == 2 ? Apply(OpKind::kSqrt, sum) : Apply(OpKind::kPow, sum, 1 / order);
  });
}
void Norm(Call& call) { EmitNorm(call, true); }
void PowerSum(Call& call) { EmitNorm(call, false); }

void LargestOf(Call& call) {
  const Items x(call, 0);
  if (call.refused()) return;
  ForEach(call, [&](size_t i) {
    const Dims all = Call::AllDims(x[i].rank());
    return Expr{&call, call.b.Reduce(OpKind::kReduceMax, x[i].value, all, false)};
  });
}

#define HPU_FOREACH_BINARY(name, handler)                                                 \
  {"aten._foreach_" name ".List", handler}, {"aten._foreach_" name ".Scalar", handler}, { \
    "aten._foreach_" name ".ScalarList", handler                                          \
  }

constexpr HandlerRow kForeachRows[] = {
    HPU_FOREACH_BINARY("add", Binary<OpKind::kAdd>),
    HPU_FOREACH_BINARY("clamp_max", Binary<OpKind::kMin>),
    HPU_FOREACH_BINARY("clamp_min", Binary<OpKind::kMax>),
    HPU_FOREACH_BINARY("div", Binary<OpKind::kDiv>),
    HPU_FOREACH_BINARY("lerp", Lerp),
    HPU_FOREACH_BINARY("maximum", Binary<OpKind::kMax>),
    HPU_FOREACH_BINARY("minimum", Binary<OpKind::kMin>),
    HPU_FOREACH_BINARY("mul", Binary<OpKind::kMul>),
    HPU_FOREACH_BINARY("pow", Power),
    HPU_FOREACH_BINARY("sub", Binary<OpKind::kSub>),
    {"aten._foreach_abs.default", Unary<OpKind::kAbs>},
    {"aten._foreach_add.Tensor", Binary<OpKind::kAdd>},
    {"aten._foreach_addcdiv.Scalar", AddProduct<OpKind::kDiv>},
    {"aten._foreach_addcdiv.ScalarList", AddProduct<OpKind::kDiv>},
    {"aten._foreach_addcdiv.Tensor", AddProduct<OpKind::kDiv>},
    {"aten._foreach_addcmul.Scalar", AddProduct<OpKind::kMul>},
    {"aten._foreach_addcmul.ScalarList", AddProduct<OpKind::kMul>},
    {"aten._foreach_addcmul.Tensor", AddProduct<OpKind::kMul>},
    {"aten._foreach_clone.default", Copied},
    {"aten._foreach_copy.default", Copied},
    {"aten._foreach_div.Tensor", Binary<OpKind::kDiv>},
    {"aten._foreach_exp.default", Unary<OpKind::kExp>},
    {"aten._foreach_log.default", Unary<OpKind::kLog>},
    {"aten._foreach_max.default", LargestOf},
    {"aten._foreach_mul.Tensor", Binary<OpKind::kMul>},
    {"aten._foreach_neg.default", Unary<OpKind::kNeg>},
    {"aten._foreach_norm.Scalar", Norm},
    {"aten._foreach_pow.ScalarAndTensor", Power},
    {"aten._foreach_powsum.Scalar", PowerSum},
    {"aten._foreach_reciprocal.default", Unary<OpKind::kReciprocal>},
    {"aten._foreach_rsqrt.default", Unary<OpKind::kRsqrt>},
    {"aten._foreach_sigmoid.default", Unary<OpKind::kSigmoid>},
    {"aten._foreach_sign.default", Unary<OpKind::kSign>},
    {"aten._foreach_sqrt.default", Unary<OpKind::kSqrt>},
    {"aten._foreach_tanh.default", Unary<OpKind::kTanh>},
    {"aten._foreach_zero.default", Zero},
};
#undef HPU_FOREACH_BINARY

}  // namespace

std::span<const HandlerRow> ForeachRows() { return kForeachRows; }

}  // namespace hpu::compiler
