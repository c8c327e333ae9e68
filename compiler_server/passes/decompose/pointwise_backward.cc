// Rewrites the gradients of pointwise calls, element by element.
#include <cmath>

#include "compiler_server/ir/host_tensor.h"
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// threshold_backward(grad, x, threshold) is the gradient of relu, too. Where x is NaN the gradient
// passes.
void ThresholdBackward(Call& call) {
  Give(call, Where(In(call, kSelf) <= call.Float("threshold"), 0.0, In(call, kGrad)));
}

void HardtanhBackward(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr outside = (x <= call.Float("min_val")) | (x >= call.Float("max_val"));
  Give(call, Where(outside, 0.0, In(call, kGrad)));
}

void LeakyReluBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  Give(call, Where(In(call, kSelf) > 0.0, grad, grad * call.Float("negative_slope")));
}

// elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result)
void EluBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  const Expr x = In(call, "self_or_result");
  const double scale = call.Float("scale");
  const double input_scale = call.Float("input_scale");
  const double low = call.Float("alpha") * scale;
  const Expr slope =
      call.Bool("is_result") ? (x + low) * input_scale : Exp(x * input_scale) * (low * input_scale);
  Give(call, Where(x <= 0.0, grad * slope, grad * scale));
}

void GeluBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  const Expr x = In(call, kSelf);
  if (call.Text("approximate") == "tanh") {
    constexpr double kBeta = M_SQRT2 * M_2_SQRTPI * 0.5;
    constexpr double kKappa = 0.044715;
    const Expr square = x * x;
    const Expr tanh = Tanh((x + x * square * kKappa) * kBeta);
    const Expr left = (tanh + 1.0) * 0.5;
    const Expr inner = (square * (3 * kKappa) + 1.0) * kBeta;
    return Give(call, grad * (left + x * 0.5 * (1.0 - tanh * tanh) * inner));
  }
  const Expr below = (Apply(OpKind::kErf, x * M_SQRT1_2) + 1.0) * 0.5;
  const Expr density = Exp(x * x * -0.5) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
  Give(call, grad * (below + x * density));
}

void HardswishBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  const Expr x = In(call, kSelf);
  const Expr inside = Where(x < 3.0, grad * (x / 3.0 + 0.5), grad);
  Give(call, Where(x <= -3.0, 0.0, inside));
}

void HardsigmoidBackward(Call& call) {
  const Expr x = In(call, kSelf);
  Give(call, Where((x > -3.0) & (x < 3.0), In(call, kGrad) / 6.0, 0.0));
}

void MishBackward(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr tanh = Tanh(Apply(OpKind::kLog1p, Exp(x)));
  Give(call, In(call, kGrad) * (tanh + x * Sigmoid(x) * (1.0 - tanh * tanh)));
}

void SoftplusBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  const Expr scaled = In(call, kSelf) * call.Float("beta");
  Give(call, Where(scaled > call.Float("threshold"), grad, grad * Sigmoid(scaled)));
}

// (grad, result)
void SigmoidBackward(Call& call) {
  const Expr y = In(call, "output");
  Give(call, In(call, kGrad) * (1.0 - y) * y);
}

void TanhBackward(Call& call) {
  const Expr y = In(call, "output");
  Give(call, In(call, kGrad) * (1.0 - y * y));
}

void SiluBackward(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr gate = Sigmoid(x);
  Give(call, In(call, kGrad) * gate * (x * (1.0 - gate) + 1.0));
}

void GluBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  const Expr x = In(call, kSelf);
  const int64_t dim = call.Dim("dim", x.rank());
  if (call.refused() || x.sizes().empty()) return call.Refuse("glu of ", ToText(x.value->type));
  const int64_t size = x.sizes()[dim];
  const Expr gate = Sigmoid(Slice(x, dim, size / 2, size));
  const Expr first = grad * gate;
  const Expr second = first * (1.0 - gate) * Slice(x, dim, 0, size / 2);
  Give(call, {&call, call.b.Concat({first.value, second.value}, dim)});
}

// log_sigmoid_forward(x) returns the result and exp(-|x|), which some devices leave empty.
void LogSigmoidForward(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr small = Exp(-Abs(x));
  const Expr y = Min(x, 0.0) - Apply(OpKind::kLog1p, small);
  const TensorType& buffer = call.type(1);
  if (buffer.sizes == x.sizes()) return Give(call, {y, small});
  call.Return({Declared(call, 0, y), call.b.Full(0, buffer.dtype, buffer.sizes)});
}
void LogSigmoidBackward(Call& call) { Give(call, In(call, kGrad) * Sigmoid(-In(call, kSelf))); }

void Hardshrink(Call& call) {
  const Expr x = In(call, kSelf);
  const double lambda = ir::RoundTo(call.dtype(), call.Stored("lambd", call.dtype()));
  Give(call, Where((x >= -lambda) & (x <= lambda), 0.0, x));
}
void Softshrink(Call& call) {
  const Expr x = In(call, kSelf);
  const double lambda = call.Float("lambd");
  // x * 0 keeps a NaN.
  Give(call, Where(x > lambda, x - lambda, Where(x < -lambda, x + lambda, x * 0.0)));
}
// hardshrink_backward(grad_out, x, lambd), softshrink_backward(grad_output, x, lambd)
void ShrinkBackward(Call& call) {
  const Expr x = In(call, kSelf);
  const double lambda = call.Float("lambd");
  Give(call, Where((x >= -lambda) & (x <= lambda), 0.0, In(call, call.name(0))));
}

void PreluKernel(Call& call) {
  const Expr x = In(call, kSelf);
  Give(call, Where(x > 0.0, x, x * In(call, "weight")));
}
void PreluKernelBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  const Expr x = In(call, kSelf);
  const Expr positive = x > 0.0;
  Give(call, {Where(positive, grad, grad * In(call, "weight")), Where(positive, 0.0, grad * x)});
}

// native_dropout_backward(grad, mask, scale)
void NativeDropoutBackward(Call& call) {
  const Expr mask{&call, call.b.Cast(call.Tensor("mask"), Widened(call.dtype()))};
  Give(call, In(call, kGrad) * mask * call.Float("scale"));
}

Expr Clamped(Call& call, Expr x) {
  const double eps = call.Float("eps", -1);
  return eps < 0 ? x : Min(Max(x, eps), 1 - eps);
}
void Logit(Call& call) {
  const Expr x = Clamped(call, In(call, kSelf));
  Give(call, Log(x / (1.0 - x)));
}
void LogitBackward(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr slope = In(call, kGrad) / (x * (1.0 - x));
  const double eps = call.Float("eps", -1);
  if (eps < 0) {
    return Give(call, Where((x < 0.0) | (x > 1.0), std::nan(""), slope));
  }
  Give(call, Where((x < eps) | (x > 1 - eps), 0.0, slope));
}

constexpr HandlerRow kPointwiseBackwardRows[] = {
    {"aten._prelu_kernel.default", PreluKernel},
    {"aten._prelu_kernel_backward.default", PreluKernelBackward},
    {"aten.elu_backward.default", EluBackward},
    {"aten.gelu_backward.default", GeluBackward},
    {"aten.glu_backward.default", GluBackward},
    {"aten.hardshrink.default", Hardshrink},
    {"aten.hardshrink_backward.default", ShrinkBackward},
    {"aten.hardsigmoid_backward.default", HardsigmoidBackward},
    {"aten.hardswish_backward.default", HardswishBackward},
    {"aten.hardtanh_backward.default", HardtanhBackward},
    {"aten.leaky_relu_backward.default", LeakyReluBackward},
    {"aten.log_sigmoid_backward.default", LogSigmoidBackward},
    {"aten.log_sigmoid_forward.default", LogSigmoidForward},
    {"aten.logit.default", Logit},
    {"aten.logit_backward.default", LogitBackward},
    {"aten.mish_backward.default", MishBackward},
    {"aten.native_dropout_backward.default", NativeDropoutBackward},
    {"aten.sigmoid_backward.default", SigmoidBackward},
    {"aten.silu_backward.default", SiluBackward},
    {"aten.softplus_backward.default", SoftplusBackward},
    {"aten.softshrink.default", Softshrink},
    {"aten.softshrink_backward.default", ShrinkBackward},
    {"aten.tanh_backward.default", TanhBackward},
    {"aten.threshold_backward.default", ThresholdBackward},
};

}  // namespace

std::span<const HandlerRow> PointwiseBackwardRows() { return kPointwiseBackwardRows; }

}  // namespace hpu::compiler
