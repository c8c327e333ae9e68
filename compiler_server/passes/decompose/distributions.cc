// Rewrites draws from distributions other than uniform, normal and true or false. The draws of each
// are those of backend/torch/eager/random_kernels.cc and distribution_kernels.cc, in their order.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler_server/passes/decompose/graph_arithmetic.h"
#include "compiler_server/passes/decompose/random.h"
#include "compiler_server/passes/decompose/selection.h"

namespace hpu::compiler {
namespace {

Expr DrawOne(Call& call, const Dims& sizes) { return {&call, Draw(call, sizes)}; }

Expr DrawExponential(Call& call, const Dims& sizes) {
  return {&call, ExponentialFromUniform(GraphArithmetic{call.b}, Draw(call, sizes))};
}

// exponential(x, lambd)
void Exponential(Call& call) {
  const double rate = call.Float("lambd");
  Give(call, DrawExponential(call, call.type().sizes) * static_cast<float>(1 / rate));
}

// geometric(x, p)
void Geometric(Call& call) {
  const auto scale = static_cast<float>(-1 / std::log1p(-call.Float("p")));
  Value* u = Draw(call, call.type().sizes);
  Give(call, {&call, GeometricFromUniform(GraphArithmetic{call.b}, u, scale)});
}

// log_normal(x, mean, std)
void LogNormal(Call& call) {
  const Expr number = Expr{&call, DrawNormal(call)} * call.Float("std") + call.Float("mean");
  Give(call, Exp(number));
}

// cauchy(x, median, sigma)
void Cauchy(Call& call) {
  const Expr u = DrawOne(call, call.type().sizes);
  const Expr number = Apply(OpKind::kTan, (u - 0.5) * std::numbers::pi);
  Give(call, number * call.Float("sigma") + call.Float("median"));
}

// normal(mean, std), where at least one of them is a tensor
void NormalAround(Call& call) {
  const Expr number{&call, DrawNormal(call)};
  Give(call, number * In(call, "std") + In(call, "mean"));
}

Value* Order(Call& call, Value* keys) {
  const int64_t size = keys->type.sizes[0];
  return call.b
      .EmitNode(OpKind::kTopk, {keys},
                {{AttrKey::kK, size}, {AttrKey::kDim, int64_t{0}}, {AttrKey::kLargest, false}})
      ->results[1];
}

// randperm(n): the order of keys with 48 bits. The second sort keeps the order of the first among
// equal keys.
void Permutation(Call& call) {
  const Dims sizes = call.type().sizes;
  if (sizes[0] == 0) return call.Return(call.b.Full(0, call.dtype(), sizes));
  Value* low = Draw(call, sizes);
  Value* high = Draw(call, sizes);
  if (call.refused()) return;
  Value* first = Order(call, low);
  Value* second = Order(call, call.b.Gather(high, first, 0));
  Give(call, {&call, call.b.Gather(first, second, 0)});
}

// multinomial(weights, num_samples, replacement). Without replacement, and for one sample, the
// places of the largest quotients by exponential numbers are drawn. With replacement, a place is
// that of a uniform number among the sums of weights.
void Multinomial(Call& call) {
  const Expr weights = In(call, kSelf);
  const int64_t count = call.Int("num_samples");
  const int64_t last = weights.rank() - 1;
  if (call.refused() || last < 0 || weights.value->type.elements() == 0) {
    return call.Refuse("weights of ", ToText(weights.value->type));
  }
  if (count == 1 || !call.Bool("replacement")) {
    const Expr quotient = weights / DrawExponential(call, weights.sizes());
    if (count == 1) {
      return call.Return(call.b.Reduce(OpKind::kArgmax, quotient.value, {last}, true));
    }
    const ir::Node* node =
        call.b.EmitNode(OpKind::kTopk, {quotient.value},
                        {{AttrKey::kK, count}, {AttrKey::kDim, last}, {AttrKey::kLargest, true}});
    return call.refused() ? void() : call.Return(node->results[1]);
  }
  const int64_t classes = weights.sizes()[last];
  const Expr sums{&call, call.b.Emit(OpKind::kCumsum, {weights.value}, {{AttrKey::kDim, last}})};
  const Expr total = Slice(sums, last, classes - 1, classes);
  // The factor keeps the product below the total.
  const Expr place = DrawOne(call, call.type().sizes) * (1 - 0x1p-23) * total;
  if (!call.refused()) Give(call, EdgesBefore(sums, place, /*right=*/true));
}

// rrelu_with_noise_functional(x, noise, lower, upper, training) returns the result and the slopes.
// At inference the slope is the middle of `lower` and `upper`.
void Rrelu(Call& call) {
  const double lower = call.Float("lower");
  const double upper = call.Float("upper");
  if (!call.Bool("training")) {
    const double slope = (lower + upper) / 2;
    return call.Return(
        {call.b.Emit(OpKind::kLeakyRelu, {call.Tensor(kSelf)}, {{AttrKey::kAlpha, slope}}),
         call.Tensor("noise")});
  }
  const Expr x = In(call, kSelf);
  const Expr slope = DrawOne(call, x.sizes()) * (upper - lower) + lower;
  const Expr noise = Where(x <= 0.0, slope, 1.0);
  Give(call, {x * noise, noise});
}

constexpr HandlerRow kDistributionRows[] = {
    {"aten.cauchy.default", Cauchy},
    {"aten.exponential.default", Exponential},
    {"aten.geometric.default", Geometric},
    {"aten.log_normal.default", LogNormal},
    {"aten.multinomial.default", Multinomial},
    {"aten.normal.Tensor_Tensor", NormalAround},
    {"aten.normal.Tensor_float", NormalAround},
    {"aten.normal.float_Tensor", NormalAround},
    {"aten.randperm.default", Permutation},
    {"aten.rrelu_with_noise_functional.default", Rrelu},
};

}  // namespace

std::span<const HandlerRow> DistributionRows() { return kDistributionRows; }

}  // namespace hpu::compiler
