// Steps of optimizers with fused=True (torch.optim), composed of operators on lists of tensors. The
// formulas are those of PyTorch's CPU kernels (aten/src/ATen/native/cpu/Fused*Kernel.cpp).
#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "backend/torch/eager/own_kernel.h"

namespace hpu::torch_backend {
namespace {

using at::Tensor;
using at::TensorList;
using Tensors = std::vector<Tensor>;

// Returns the tensors in the type in which steps are calculated: f32, and f64 for f64.
Tensors Wide(TensorList tensors) {
  Tensors wide;
  wide.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    wide.push_back(tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat));
  }
  return wide;
}

// Writes what was calculated in a wider type into the tensors.
void Write(TensorList tensors, const Tensors& wide) {
  if (!tensors.empty() && !tensors[0].is_same(wide[0])) at::_foreach_copy_(tensors, wide);
}

// Returns false if the step must be left out, because a gradient is not finite. Otherwise the
// gradients are those of the loss before it was scaled.
bool Unscale(TensorList grads, const std::optional<Tensor>& grad_scale,
             const std::optional<Tensor>& found_inf) {
  if (found_inf.has_value() && found_inf->item<float>() == 1) return false;
  if (grad_scale.has_value()) at::_foreach_div_(grads, *grad_scale);
  return true;
}

Tensors Directed(TensorList grads, bool maximize) {
  Tensors wide = Wide(grads);
  return maximize ? at::_foreach_neg(wide) : wide;
}

void Scale(TensorList tensors, double factor) { at::_foreach_mul_(tensors, factor); }
void Scale(TensorList tensors, const Tensor& factor) { at::_foreach_mul_(tensors, factor); }

struct AdamNumbers {
  double beta1, beta2, weight_decay, eps;
  bool amsgrad, maximize, decouples_decay;
};

// lr: a number or a tensor.
template <typename Rate>
void StepAdam(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
              TensorList max_exp_avg_sqs, TensorList state_steps, const Rate& lr,
              const AdamNumbers& with) {
  Tensors grad = Directed(grads, with.maximize);
  const Tensors param = Wide(self);
  const Tensors mean = Wide(exp_avgs);
  const Tensors square = Wide(exp_avg_sqs);
  if (with.weight_decay != 0 && with.decouples_decay) {
    Scale(param, 1 - lr * with.weight_decay);
  } else if (with.weight_decay != 0) {
    grad = at::_foreach_add(grad, param, with.weight_decay);
  }
  at::_foreach_lerp_(mean, grad, 1 - with.beta1);
  Scale(square, with.beta2);
  at::_foreach_addcmul_(square, grad, grad, 1 - with.beta2);
  Tensors denominator;
  if (with.amsgrad) {
    const Tensors largest = Wide(max_exp_avg_sqs);
    at::_foreach_maximum_(largest, square);
    Write(max_exp_avg_sqs, largest);
    denominator = at::_foreach_sqrt(largest);
  } else {
    denominator = at::_foreach_sqrt(square);
  }
  const auto correction = [&](double beta) {
    const Tensors power = at::_foreach_pow(beta, state_steps);
    return at::_foreach_add(at::_foreach_neg(power), 1);
  };
  at::_foreach_div_(denominator, at::_foreach_sqrt(correction(with.beta2)));
  at::_foreach_add_(denominator, with.eps);
  at::_foreach_mul_(denominator, correction(with.beta1));
  Tensors step = at::_foreach_div(mean, denominator);
  Scale(step, lr);
  at::_foreach_sub_(param, step);
  Write(self, param);
  Write(exp_avgs, mean);
  Write(exp_avg_sqs, square);
}

template <typename Rate, bool decouples_decay>
void FusedAdam(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
               TensorList max_exp_avg_sqs, TensorList state_steps, Rate lr, double beta1,
               double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
               const std::optional<Tensor>& grad_scale, const std::optional<Tensor>& found_inf) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!Unscale(grads, grad_scale, found_inf)) return;
  StepAdam(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr,
           {beta1, beta2, weight_decay, eps, amsgrad, maximize, decouples_decay});
}

template <typename Rate>
void FusedSgd(TensorList self, TensorList grads, TensorList momentum_buffers, double weight_decay,
              double momentum, Rate lr, double dampening, bool nesterov, bool maximize,
              bool is_first_step, const std::optional<Tensor>& grad_scale,
              const std::optional<Tensor>& found_inf) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!Unscale(grads, grad_scale, found_inf)) return;
  Tensors grad = Directed(grads, maximize);
  const Tensors param = Wide(self);
  if (weight_decay != 0) grad = at::_foreach_add(grad, param, weight_decay);
  if (momentum != 0) {
    const Tensors buffer = Wide(momentum_buffers);
    if (is_first_step) {
      at::_foreach_copy_(buffer, grad);
    } else {
      Scale(buffer, momentum);
      at::_foreach_add_(buffer, grad, 1 - dampening);
    }
    grad = nesterov ? at::_foreach_add(grad, buffer, momentum) : buffer;
    Write(momentum_buffers, buffer);
  }
  at::_foreach_sub_(param, at::_foreach_mul(grad, lr));
  Write(self, param);
}

template <typename Rate>
void FusedAdagrad(TensorList self, TensorList grads, TensorList state_sums, TensorList state_steps,
                  Rate lr, double lr_decay, double weight_decay, double eps, bool maximize,
                  const std::optional<Tensor>& grad_scale, const std::optional<Tensor>& found_inf) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!Unscale(grads, grad_scale, found_inf)) return;
  Tensors grad = Directed(grads, maximize);
  const Tensors param = Wide(self);
  const Tensors sum = Wide(state_sums);
  if (weight_decay != 0) grad = at::_foreach_add(grad, param, weight_decay);
  at::_foreach_addcmul_(sum, grad, grad, 1);
  Tensors denominator = at::_foreach_sqrt(sum);
  at::_foreach_add_(denominator, eps);
  // The rate of step n is lr / (1 + (n - 1) * lr_decay).
  Tensors decay = at::_foreach_mul(state_steps, lr_decay);
  at::_foreach_add_(decay, 1 - lr_decay);
  at::_foreach_mul_(denominator, decay);
  Tensors step = at::_foreach_div(grad, denominator);
  Scale(step, lr);
  at::_foreach_sub_(param, step);
  Write(self, param);
  Write(state_sums, sum);
}

template <typename Kernel>
OwnKernel Fused(const char* op, Kernel* kernel) {
  return {op, c10::KernelFunction::makeFromUnboxedRuntimeFunction(kernel),
          OwnKernel::Kind::kComposedInRecordings};
}

}  // namespace

std::vector<OwnKernel> FusedOptimizerKernels() {
  return {Fused("aten::_fused_adam_", &FusedAdam<double, false>),
          Fused("aten::_fused_adam_.tensor_lr", &FusedAdam<const Tensor&, false>),
          Fused("aten::_fused_adamw_", &FusedAdam<double, true>),
          Fused("aten::_fused_adamw_.tensor_lr", &FusedAdam<const Tensor&, true>),
          Fused("aten::_fused_sgd_", &FusedSgd<double>),
          Fused("aten::_fused_sgd_.tensor_lr", &FusedSgd<const Tensor&>),
          Fused("aten::_fused_adagrad_", &FusedAdagrad<double>),
          Fused("aten::_fused_adagrad_.tensor_lr", &FusedAdagrad<const Tensor&>)};
}

}  // namespace hpu::torch_backend
