"""Steps of optimizers over lists of tensors, and clipping. One call is one recipe."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .definition import operator
from .fp8 import wide

Tensors = Sequence[Tensor]


def _check_lengths(name: str, *lists: Tensors | Sequence[int]) -> None:
    if len({len(given) for given in lists}) > 1:
        lengths = ", ".join(str(len(given)) for given in lists)
        raise RuntimeError(f"hpu::{name}: the lists have {lengths} elements, not equally many")


def _norm(x: Tensor) -> Tensor:
    return wide(x).square().sum().sqrt()


def _moments(
    gradient: Tensor, average: Tensor, square: Tensor, beta1: float, beta2: float, weight: float
) -> tuple[Tensor, Tensor]:
    """Writes both averages; returns them before they are rounded."""
    first = wide(average) * beta1 + gradient * weight
    second = wide(square) * beta2 + gradient.square() * (1 - beta2)
    average.copy_(first)
    square.copy_(second)
    return first, second


@operator(
    "optimizer_adamw(Tensor[] gradient_vec, Tensor(a!)[] weight_vec, Tensor(b!)[] exp_avg_vec, "
    "Tensor(c!)[] exp_avg_sq_vec, Tensor neg_step_t, float beta1, float beta2, float epsilon, "
    "Tensor weight_decay, bool has_weight_decay, Tensor(d!)[]? exp_avg_scales=None, "
    "Tensor(e!)[]? exp_avg_sq_scales=None) -> ()"
)
def optimizer_adamw(
    gradient_vec: Tensors,
    weight_vec: Tensors,
    exp_avg_vec: Tensors,
    exp_avg_sq_vec: Tensors,
    neg_step_t: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: Tensor,
    has_weight_decay: bool,
    exp_avg_scales: Tensors | None = None,
    exp_avg_sq_scales: Tensors | None = None,
) -> None:
    """weight_decay: what multiplies the weights, 1 - rate * decay."""
    _check_lengths("optimizer_adamw", gradient_vec, weight_vec, exp_avg_vec, exp_avg_sq_vec)
    if exp_avg_scales is not None or exp_avg_sq_scales is not None:
        raise RuntimeError("hpu::optimizer_adamw: averages of 8 bits with scales are not supported")
    for gradient, weight, average, square in zip(
        gradient_vec, weight_vec, exp_avg_vec, exp_avg_sq_vec, strict=True
    ):
        first, second = _moments(wide(gradient), average, square, beta1, beta2, 1 - beta1)
        step = first / (second.sqrt() + epsilon) * wide(neg_step_t)
        kept = wide(weight) * wide(weight_decay) if has_weight_decay else wide(weight)
        weight.copy_(kept + step)


@operator("optimizer_lamb_fused_norm(Tensor[] grad, float max_norm) -> Tensor")
def optimizer_lamb_fused_norm(grad: Tensors, max_norm: float) -> Tensor:
    """Returns the divisor of the gradients with which their norm is at most max_norm."""
    norm = torch.stack([wide(g).square().sum() for g in grad]).sum().sqrt()
    return (norm / max_norm).clamp(min=1.0).reshape(1).to(grad[0].dtype)


@operator(
    "optimizer_lamb_phase1(Tensor[] gradients, Tensor[] weights, Tensor(a!)[] exp_avg, "
    "Tensor(b!)[] exp_avg_sq, Tensor(c!)[] out_weight_norms, Tensor(d!)[] out_adam_norms, "
    "Tensor(e!)[] out_adam_steps, Tensor clip_global_grad_norm, int grad_averaging, float beta1, "
    "float beta2, float epsilon, Tensor bias_correction1, Tensor bias_correction2, "
    "float weight_decay) -> ()"
)
def optimizer_lamb_phase1(
    gradients: Tensors,
    weights: Tensors,
    exp_avg: Tensors,
    exp_avg_sq: Tensors,
    out_weight_norms: Tensors,
    out_adam_norms: Tensors,
    out_adam_steps: Tensors,
    clip_global_grad_norm: Tensor,
    grad_averaging: int,
    beta1: float,
    beta2: float,
    epsilon: float,
    bias_correction1: Tensor,
    bias_correction2: Tensor,
    weight_decay: float,
) -> None:
    _check_lengths("optimizer_lamb_phase1", gradients, weights, exp_avg, exp_avg_sq)
    outputs = zip(out_weight_norms, out_adam_norms, out_adam_steps, strict=True)
    inputs = zip(gradients, weights, exp_avg, exp_avg_sq, strict=True)
    share = 1 - beta1 if grad_averaging else 1.0
    for (gradient, weight, average, square), (norm, length, step) in zip(
        inputs, outputs, strict=True
    ):
        clipped = wide(gradient) / wide(clip_global_grad_norm)
        first, second = _moments(clipped, average, square, beta1, beta2, share)
        root = (second / wide(bias_correction2)).sqrt()
        update = first / wide(bias_correction1) / (root + epsilon)
        if weight_decay != 0:
            update = update + wide(weight) * weight_decay
        norm.copy_(_norm(weight).expand_as(norm))
        length.copy_(_norm(update).expand_as(length))
        step.copy_(update)


@operator(
    "optimizer_lamb_phase2(Tensor(a!)[] weights, Tensor[] adam_norms, Tensor[] weight_norms, "
    "Tensor[] adam_steps, Tensor neg_step, float wd, bool use_lamb) -> ()"
)
def optimizer_lamb_phase2(
    weights: Tensors,
    adam_norms: Tensors,
    weight_norms: Tensors,
    adam_steps: Tensors,
    neg_step: Tensor,
    wd: float,
    use_lamb: bool,
) -> None:
    _check_lengths("optimizer_lamb_phase2", weights, adam_norms, weight_norms, adam_steps)
    for weight, length, norm, step in zip(
        weights, adam_norms, weight_norms, adam_steps, strict=True
    ):
        update = wide(step) * wide(neg_step)
        if wd != 0 or use_lamb:
            known = torch.logical_and(length > 0, norm > 0)
            update = update * torch.where(known, wide(norm) / wide(length), 1.0)
        weight.add_(update)


@operator(
    "optimizer_lars(Tensor[] params, Tensor(a!)[] grads, int[] skip_masks, float eeta, "
    "float weight_decay, float eps, Tensor lr) -> ()"
)
def optimizer_lars(
    params: Tensors,
    grads: Tensors,
    skip_masks: Sequence[int],
    eeta: float,
    weight_decay: float,
    eps: float,
    lr: Tensor,
) -> None:
    """Scales gradients by the rate, and those with a mask that is not 0 by LARS' ratio too, after
    the decay was added."""
    _check_lengths("optimizer_lars", params, grads, skip_masks)
    for param, grad, mask in zip(params, grads, skip_masks, strict=True):
        scaled = wide(grad)
        rate = wide(lr)
        if mask:
            size, length = _norm(param), _norm(grad)
            ratio = size * eeta / (length + size * weight_decay + eps)
            rate = rate * torch.where(torch.logical_and(size > 0, length > 0), ratio, 1.0)
            scaled = scaled + wide(param) * weight_decay
        grad.copy_(scaled * rate)


@operator("optimizer_ema(Tensor[] model_inputs, Tensor(a!)[] updated_ema, Tensor decay) -> ()")
def optimizer_ema(model_inputs: Tensors, updated_ema: Tensors, decay: Tensor) -> None:
    """Averages of floats; other tensors stay as they are."""
    _check_lengths("optimizer_ema", model_inputs, updated_ema)
    for value, average in zip(model_inputs, updated_ema, strict=True):
        if average.is_floating_point():
            by = wide(decay).reshape(())
            average.copy_(wide(average) * by + wide(value) * (1 - by))


@operator(
    "optimizer_resource_apply_momentum(Tensor(a!)[] params_momentum_buf_list, Tensor[] dp_list, "
    "float momentum) -> ()"
)
def optimizer_resource_apply_momentum(
    params_momentum_buf_list: Tensors, dp_list: Tensors, momentum: float
) -> None:
    """The list has a parameter and its momentum in turn: momentum * mom - gradient, added to the
    parameter."""
    params, buffers = params_momentum_buf_list[::2], params_momentum_buf_list[1::2]
    _check_lengths("optimizer_resource_apply_momentum", params, buffers, dp_list)
    for param, buffer, gradient in zip(params, buffers, dp_list, strict=True):
        moved = wide(buffer) * momentum - wide(gradient)
        buffer.copy_(moved)
        param.add_(moved)


def _sgd_update(update: Tensor, weight: Tensor, wd: float) -> Tensor:
    return wide(update) + wide(weight) * wd if wd else wide(update)


@operator(
    "optimizer_sgd(Tensor[] gradients, Tensor(a!)[] weights_in, Tensor(b!) learning_rate, "
    "float wd, float mom, float damp, bool nesterov) -> ()"
)
def optimizer_sgd(
    gradients: Tensors,
    weights_in: Tensors,
    learning_rate: Tensor,
    wd: float,
    mom: float,
    damp: float,
    nesterov: bool,
) -> None:
    _check_lengths("optimizer_sgd", gradients, weights_in)
    for gradient, weight in zip(gradients, weights_in, strict=True):
        weight.sub_(_sgd_update(gradient, weight, wd) * wide(learning_rate))


@operator(
    "optimizer_sgd_momentum(Tensor[] gradients, Tensor(a!)[] weights_in, "
    "Tensor(b!)[] momentum_in, Tensor epoch_num, Tensor(c!) learning_rate, Tensor(d!) mom, "
    "float wd, float damp, bool nesterov) -> ()"
)
def optimizer_sgd_momentum(
    gradients: Tensors,
    weights_in: Tensors,
    momentum_in: Tensors,
    epoch_num: Tensor,
    learning_rate: Tensor,
    mom: Tensor,
    wd: float,
    damp: float,
    nesterov: bool,
) -> None:
    """In epoch 0 the momentum becomes the gradient itself."""
    _check_lengths("optimizer_sgd_momentum", gradients, weights_in, momentum_in)
    for gradient, weight, buffer in zip(gradients, weights_in, momentum_in, strict=True):
        update = _sgd_update(gradient, weight, wd)
        moved = wide(buffer) * wide(mom) + update * (1 - damp)
        moved = torch.where(epoch_num == 0, update, moved)
        buffer.copy_(moved)
        step = update + moved * wide(mom) if nesterov else moved
        weight.sub_(step * wide(learning_rate))


@operator("fused_clip_norm(Tensor(a!)[] grad, Tensor max_norm, float norm_type) -> Tensor")
def fused_clip_norm(grad: Tensors, max_norm: Tensor, norm_type: float) -> Tensor:
    """Scales the gradients in place; returns the norm that they had."""
    if norm_type != 2.0:
        raise RuntimeError(f"hpu::fused_clip_norm: norm_type is {norm_type}; only 2 is supported")
    norm = torch.stack([wide(g).square().sum() for g in grad]).sum().sqrt()
    factor = (wide(max_norm) / (norm + 1e-6)).clamp(max=1.0)
    for g in grad:
        g.copy_(wide(g) * factor)
    return norm.to(grad[0].dtype)
