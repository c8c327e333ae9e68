"""Optimizers of Gaudi scripts. Each consists of plain tensor calls: eagerly they run one by one,
and `torch.compile(optimizer.step, backend="hpu_backend")` makes one recipe of all of them.

The number of steps is a 0-d f32 tensor beside the parameters, so that a compiled step reads no
changing number of the host; a plain number, as other builds save it, is accepted as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]
Closure = Callable[[], Any]


def _check_adam(lr: float, betas: tuple[float, float], eps: float) -> None:
    if lr < 0.0:
        raise ValueError(f"lr is {lr}, not a number of at least 0")
    if not all(0.0 <= beta < 1.0 for beta in betas):
        raise ValueError(f"betas are {betas}, not two numbers in [0, 1)")
    if eps < 0.0:
        raise ValueError(f"eps is {eps}, not a number of at least 0")


class _Moments(torch.optim.Optimizer):
    """Keeps two moving averages of a parameter's gradient."""

    def _next_step(self, group: dict[str, Any]) -> Tensor:
        """The number of this step of the group, counted from 1. group["step"] is an int, which
        programs read for their learning rates, and in a compiled step a tensor, so that it is an
        input of the graph."""
        device = group["params"][0].device
        done = group.get("step", 0)
        if not torch.compiler.is_compiling():
            group["step"] = int(done) + 1
            return torch.as_tensor(float(group["step"]), dtype=torch.float32).to(device)
        if not isinstance(done, Tensor) or done.device != device:
            done = torch.as_tensor(float(done), dtype=torch.float32).to(device)
        number: Tensor = done + 1
        group["step"] = number
        return number

    def _moments(
        self, group: dict[str, Any], dtypes: tuple[torch.dtype | None, torch.dtype | None]
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The parameter, its gradient, and the averages of its gradients and of their squares."""
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                raise RuntimeError(f"{type(self).__name__} does not take sparse gradients")
            state = self.state[parameter]
            if "exp_avg" not in state:
                state["exp_avg"] = torch.zeros_like(parameter, dtype=dtypes[0])
                state["exp_avg_sq"] = torch.zeros_like(parameter, dtype=dtypes[1])
            yield parameter, parameter.grad, state["exp_avg"], state["exp_avg_sq"]


def _average(average: Tensor, values: Tensor, weight: float, values_weight: float) -> Tensor:
    """Sets `average` to average * weight + values * values_weight, computed in the wider type of
    both; returns the result before it is rounded to average's type."""
    wide = torch.promote_types(average.dtype, values.dtype)
    exact = average.to(wide) * weight + values.to(wide) * values_weight
    average.copy_(exact)
    return exact


def _has_parameters(group: dict[str, Any]) -> bool:
    return bool(group["params"])


def _squared(gradient: Tensor, average: Tensor) -> Tensor:
    """The squared gradient, in the wider type of both."""
    wide = gradient.to(torch.promote_types(gradient.dtype, average.dtype))
    return wide * wide


def _enabled(closure: Closure | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class FusedAdamW(_Moments):
    """Adam with decoupled weight decay. `eps` is added to the root of the second moment before its
    bias is corrected. moments_dtype: the type of both moments, or a pair with one type for each; f8
    types are not accepted."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        moments_dtype: torch.dtype | tuple[torch.dtype, torch.dtype] | None = None,
    ) -> None:
        _check_adam(lr, betas, eps)
        first, second = (
            moments_dtype if isinstance(moments_dtype, tuple) else (moments_dtype, moments_dtype)
        )
        if any(dtype is not None and dtype.itemsize < 2 for dtype in (first, second)):
            raise ValueError(f"moments_dtype {moments_dtype}: use float32 or bfloat16")
        self.moments_dtypes = first, second
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        loss = _enabled(closure)
        for group in filter(_has_parameters, self.param_groups):
            beta1, beta2 = group["betas"]
            rate: Any = group["lr"]
            step = self._next_step(group)
            if group["bias_correction"]:
                rate = rate * (1 - torch.pow(beta2, step)).sqrt() / (1 - torch.pow(beta1, step))
            for parameter, gradient, average, square in self._moments(group, self.moments_dtypes):
                first = _average(average, gradient, beta1, 1 - beta1)
                second = _average(square, _squared(gradient, square), beta2, 1 - beta2)
                decayed = parameter * (1 - group["lr"] * group["weight_decay"])
                parameter.copy_(decayed - rate * first / (second.sqrt() + group["eps"]))
        return loss


class FusedLamb(_Moments):
    """LAMB: Adam's update of each parameter, scaled by the parameter's norm over the update's.

    The norm of all gradients of a group is limited to `max_grad_norm`. use_lamb: scale also without
    weight decay. fused, dtype and set_grad_none are accepted and have no effect."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_lamb: bool = False,
        fused: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        _check_adam(lr, betas, eps)
        if amsgrad or not adam_w_mode:
            raise ValueError("FusedLamb has neither amsgrad nor weight decay inside the gradient")
        defaults = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "grad_averaging": grad_averaging,
            "max_grad_norm": max_grad_norm,
            "use_lamb": use_lamb,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        loss = _enabled(closure)
        for group in filter(_has_parameters, self.param_groups):
            beta1, beta2 = group["betas"]
            step = self._next_step(group)
            corrections: tuple[Any, Any] = (1.0, 1.0)
            if group["bias_correction"]:
                corrections = 1 - torch.pow(beta1, step), 1 - torch.pow(beta2, step)
            gradients = [p.grad for p in group["params"] if p.grad is not None]
            if not gradients:
                continue
            norm = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
            shrink = torch.clamp(norm / group["max_grad_norm"], min=1.0)
            weight = 1 - beta1 if group["grad_averaging"] else 1.0
            for parameter, given, average, square in self._moments(group, (None, None)):
                gradient = given / shrink
                first = _average(average, gradient, beta1, weight) / corrections[0]
                second = _average(square, _squared(gradient, square), beta2, 1 - beta2)
                second = second / corrections[1]
                update = first / (second.sqrt() + group["eps"]) + group["weight_decay"] * parameter
                rate: Any = group["lr"]
                if group["weight_decay"] != 0.0 or group["use_lamb"]:
                    size, length = parameter.norm(), update.norm()
                    known = (size > 0) & (length > 0)
                    rate = rate * torch.where(known, size / length, torch.ones_like(size))
                parameter.sub_(rate * update)
        return loss


class FusedSGD(torch.optim.SGD):
    """torch.optim.SGD, with the weight decay before the dampening in the arguments."""

    def __init__(
        self,
        params: Parameters,
        lr: float,
        momentum: float = 0,
        weight_decay: float = 0,
        dampening: float = 0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov)


class FusedAdagrad(torch.optim.Adagrad):
    """torch.optim.Adagrad."""


class FusedLars(torch.optim.Optimizer):
    """Scales the gradients of another optimizer's step by LARS. skip_mask: for each parameter of a
    group a number; 0 leaves its gradient as it is, but for the rate."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        skip_mask: Sequence[int],
        eeta: float = 0.001,
        eps: float = 1e-8,
    ) -> None:
        self.optim = optimizer
        self.skip_mask, self.eeta, self.eps = skip_mask, eeta, eps
        defaults = {**optimizer.defaults, "skip_mask": skip_mask, "eeta": eeta, "eps": eps}
        super().__init__(optimizer.param_groups, defaults)
        self.state = optimizer.state

    def zero_grad(self, set_to_none: bool = False) -> None:
        self.optim.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """The rate is in the gradients, so the other optimizer's own rate should be 1."""
        loss = _enabled(closure)
        decays = [group.get("weight_decay", 0) for group in self.optim.param_groups]
        for group, decay in zip(self.optim.param_groups, decays, strict=True):
            group["weight_decay"] = 0
            given = [
                (p, mask)
                for p, mask in zip(group["params"], self.skip_mask, strict=False)
                if p.grad is not None
            ]
            if not given:
                continue
            torch.ops.hpu.optimizer_lars(
                [p.detach() for p, _ in given],
                [p.grad.detach() for p, _ in given],
                [mask for _, mask in given],
                self.eeta,
                decay,
                self.eps,
                torch.tensor(float(group["lr"])).to(given[0][0].device),
            )
        self.optim.step()
        for group, decay in zip(self.optim.param_groups, decays, strict=True):
            group["weight_decay"] = decay
        return loss


class FusedResourceApplyMomentum(torch.optim.Optimizer):
    """Momentum for gradients that already have the rate in them (FusedLars): the momentum becomes
    momentum * itself - gradient and is added to the parameter. In the first step the gradient
    itself is the momentum, as in the bridge. lr, weight_decay and nesterov have no effect."""

    def __init__(
        self,
        params: Parameters,
        lr: float,
        momentum: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        for name, number in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if number < 0.0:
                raise ValueError(f"{name} is {number}, not a number of at least 0")
        if nesterov and momentum <= 0:
            raise ValueError("nesterov needs a momentum above 0")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        loss = _enabled(closure)
        for group in self.param_groups:
            both: list[Tensor] = []
            gradients: list[Tensor] = []
            for p in group["params"]:
                if p.grad is None:
                    continue
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = p.grad.clone()
                    p.add_(p.grad)
                    continue
                both += [p, self.state[p]["momentum_buffer"]]
                gradients.append(p.grad)
            if gradients:
                torch.ops.hpu.optimizer_resource_apply_momentum(both, gradients, group["momentum"])
        return loss
