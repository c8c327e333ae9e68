"""A linear layer whose three products are of tensors in fp8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .base import Run, TransformerEngineBaseModule
from .fp8 import get_fp8_te_sr, is_fp8_enabled
from .recipe import dtype_of
from .scaling import quantize
from .utils import FP8FwdTensors

_INPUT, _WEIGHT = FP8FwdTensors.GEMM1_INPUT.value, FP8FwdTensors.GEMM1_WEIGHT.value


def _product(a: Tensor, b: Tensor, inverse: Tensor, dtype: torch.dtype) -> Tensor:
    """a @ b of fp8 numbers, which are exact in `dtype`, without their scales."""
    return torch.mm(a.to(dtype), b.to(dtype)) * inverse.to(dtype)


class _Fp8Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        cached: tuple[Tensor, Tensor] | None,
        run: Run,
        minimize_memory: bool,
        dtype: torch.dtype,
    ) -> Tensor:
        fmt = run.recipe.fp8_format
        narrow, scale = dtype_of(fmt, forward=True), run.forward.scale
        later, later_scale = dtype_of(fmt, forward=False), run.saved.scale
        x8 = quantize(x, scale[_INPUT], narrow)
        x8_later = x8 if later is narrow else quantize(x, later_scale[_INPUT], later)
        w8, w8_later = cached or quantized_weight(weight, run)
        inverse = run.forward.scale_inv
        y = _product(x8, w8.t(), inverse[_INPUT] * inverse[_WEIGHT], dtype)
        if bias is not None:
            y = y + bias.to(dtype)
        kept = weight if minimize_memory else w8_later
        ctx.save_for_backward(x8_later, kept, run.saved.scale, run.saved.scale_inv)
        ctx.run, ctx.dtype = run, dtype
        ctx.again = minimize_memory
        ctx.types = (x.dtype, weight.dtype, None if bias is None else bias.dtype)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x8, w8, scale, scale_inv = ctx.saved_tensors
        run: Run = ctx.run
        x_type, weight_type, bias_type = ctx.types
        narrow = dtype_of(run.recipe.fp8_format, forward=False)
        if ctx.again:
            w8 = quantize(w8, scale[_WEIGHT], narrow)
        if run.follows:
            run.backward.update(run.recipe, run.recipe.fp8_format.value.max_bwd)
        inverse = run.backward.scale_inv[0]
        at_random = get_fp8_te_sr(run.recipe, fprop_tensor=False)
        g8 = quantize(gradient, run.backward.scale[0], narrow, at_random)
        if run.measures_gradient:
            run.backward.measure(gradient)
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = _product(g8, w8, inverse * scale_inv[_WEIGHT], ctx.dtype).to(x_type)
        if ctx.needs_input_grad[1]:
            of_weight = _product(g8.t(), x8, inverse * scale_inv[_INPUT], ctx.dtype).to(weight_type)
        if bias_type is not None and ctx.needs_input_grad[2]:
            of_bias = gradient.sum(0).to(bias_type)
        return of_x, of_weight, of_bias, None, None, None, None


def quantized_weight(weight: Tensor, run: Run) -> tuple[Tensor, Tensor]:
    """The weight in the formats of forward and backward, which may be one tensor."""
    fmt = run.recipe.fp8_format
    narrow, later = dtype_of(fmt, forward=True), dtype_of(fmt, forward=False)
    w8 = quantize(weight, run.forward.scale[_WEIGHT], narrow)
    return w8, w8 if later is narrow else quantize(weight, run.saved.scale[_WEIGHT], later)


class Linear(TransformerEngineBaseModule):
    """torch.nn.Linear which calculates in fp8 in the blocks of fp8_autocast.

    skip_weight_param_allocation: the caller passes weight (and bias) or sets them as attributes.
    return_bias: bias is not added but returned beside the result. minimize_memory: the weight in
    fp8 is made again in the backward. Parallelism over devices is refused with ValueError: there is
    one device.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Callable[[], Any] | None = None,
        init_method: Callable[[Tensor], Any] | None = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: torch.dtype | None = None,
        parallel_mode: str | None = None,
        skip_weight_param_allocation: bool = False,
        device: torch.device | str = "hpu",
        minimize_memory: bool = False,
    ) -> None:
        super().__init__()
        if tp_size != 1 or sequence_parallel:
            raise ValueError(
                f"te.Linear: tp_size={tp_size}, sequence_parallel={sequence_parallel}: layers over "
                "several devices are not supported: the layer exchanges nothing between ranks"
            )
        if parallel_mode not in (None, "row", "column"):
            raise ValueError(f'te.Linear: parallel_mode={parallel_mode!r}; use "row" or "column"')
        self.in_features, self.out_features = in_features, out_features
        self.use_bias, self.return_bias = bias, return_bias
        self.minimize_memory = minimize_memory
        self._cached: tuple[Tensor, Tensor] | None = None
        if skip_weight_param_allocation:
            return
        dtype = params_dtype or torch.get_default_dtype()
        sizes = (out_features, in_features)
        self.weight = torch.nn.Parameter(torch.empty(sizes, device=device, dtype=dtype))
        (init_method or _init)(self.weight)
        if bias:
            self.bias = torch.nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)

    def forward(
        self,
        inp: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        is_first_microbatch: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """is_first_microbatch: True keeps the weight in fp8, and False takes the kept one; None
        makes it in each call."""
        weight = self.weight if weight is None else weight
        if bias is None and self.use_bias:
            bias = self.bias
        added = None if self.return_bias else bias
        if is_fp8_enabled():
            y = self._in_fp8(inp, weight, added, is_first_microbatch)
        else:
            y = F.linear(inp, weight, added)
        return (y, bias) if self.return_bias else y

    def _in_fp8(
        self, inp: Tensor, weight: Tensor, bias: Tensor | None, first: bool | None
    ) -> Tensor:
        dtype = torch.get_autocast_dtype("hpu") if torch.is_autocast_enabled("hpu") else inp.dtype
        x = inp.reshape(-1, inp.shape[-1])
        run = self.start_run(inputs=2, device=inp.device)
        cached = None
        if first is not None:
            if first or self._cached is None:
                self._cached = quantized_weight(weight.detach(), run)
            cached = self._cached
        y: Tensor = _Fp8Linear.apply(x, weight, bias, cached, run, self.minimize_memory, dtype)
        self.measure(run, x, weight)
        return y.view(*inp.shape[:-1], y.shape[-1])

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


def _init(weight: Tensor) -> None:
    torch.nn.init.normal_(weight, mean=0.0, std=0.023)
