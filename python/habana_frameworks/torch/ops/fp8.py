"""Floats of 8 bits: casts with a scale, and products, convolutions, sums and softmaxes of them.

A scale is a tensor, a number, or a list of numbers, and multiplies after it was rounded to the type
of what it multiplies. `scale_shape` is the shape in which a list or tensor broadcasts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .definition import operator

Scale = Tensor | float | Sequence[float] | None
FP8 = (torch.float8_e5m2, torch.float8_e4m3fn)


def factor(
    scale: Scale, like: Tensor, dtype: torch.dtype, shape: Sequence[int] | None = None
) -> Tensor | None:
    """The scale rounded to `dtype`, as f32 (of f64: f64); None for none."""
    if scale is None:
        return None
    if isinstance(scale, (int, float)):
        scale = torch.full((), scale, dtype=torch.float32, device=like.device)
    elif not isinstance(scale, Tensor):
        scale = torch.tensor(scale, dtype=torch.float32, device=like.device)
    if shape is not None:
        scale = scale.reshape(shape)
    return wide(scale.to(dtype))


def wide(x: Tensor) -> Tensor:
    """In the type that formulas are calculated in."""
    return x if x.dtype == torch.float64 else x.float()


def scaled(x: Tensor, *factors: Tensor | None) -> Tensor:
    for by in factors:
        if by is not None:
            x = x * by
    return x


def saturated(x: Tensor, dtype: torch.dtype) -> Tensor:
    """In an 8-bit type, whose largest numbers stand for what is beyond them."""
    return _limited(x, dtype).to(dtype)


def _limited(x: Tensor, dtype: torch.dtype) -> Tensor:
    limit = torch.finfo(dtype).max
    return x.clamp(-limit, limit)


def _rounded_at_random(x: Tensor, dtype: torch.dtype) -> Tensor:
    """One of the two numbers of `dtype` next to x, each with a probability that grows with its
    nearness, so that the mean is x and numbers of `dtype` stay."""
    mantissa, lowest = (3, -6) if dtype == torch.float8_e4m3fn else (2, -14)
    exponent = x.abs().clamp(min=2.0**lowest).log2().floor()
    unit = (exponent - mantissa).exp2()
    units = x.abs() / unit
    whole = units.floor()
    rounded = (whole + (torch.rand_like(x) < units - whole)) * unit
    return torch.where(x < 0, -rounded, rounded)


def largest(x: Tensor) -> Tensor:
    """The largest magnitude, f32; 0 if there is none."""
    return x.abs().amax().float() if x.numel() else x.new_zeros((), dtype=torch.float32)


def _largest(x: Tensor, wanted: bool) -> Tensor:
    if not wanted:
        return x.new_empty(0, dtype=torch.float32)
    return largest(x)


def cast_to_fp8(
    x: Tensor,
    scale: Scale,
    stochastic_rounding: bool,
    dtype: torch.dtype,
    scale_shape: Sequence[int] | None = None,
) -> Tensor:
    by = factor(scale, x, x.dtype, scale_shape)
    product = wide(x) if by is None else wide((wide(x) * by).to(x.dtype))
    if stochastic_rounding:
        product = _rounded_at_random(_limited(product, dtype), dtype)
    return saturated(product, dtype)


@operator(
    *(
        f"cast_to_fp8_v2{overload}(Tensor input, {scale} scale{default}, bool "
        "stochastic_rounding=False, bool is_amax=False, ScalarType dtype=None, "
        "int[]? scale_shape=None) -> (Tensor, Tensor)"
        for overload, scale, default in (
            ("", "Tensor?", "=None"),
            (".scalar", "float", ""),
            (".scalar_list", "float[]", ""),
        )
    ),
    draws=True,
)
def cast_to_fp8_v2(
    input: Tensor,
    scale: Scale = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
    dtype: torch.dtype | None = None,
    scale_shape: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    dtype = torch.float8_e5m2 if dtype is None else dtype
    if dtype not in FP8:
        raise RuntimeError(
            f"hpu::cast_to_fp8_v2: dtype is {dtype}; it is one of {', '.join(map(str, FP8))}"
        )
    if input.dtype in FP8:
        if is_amax:
            raise RuntimeError("CastToFp8V2 must have no amax for float8.")
        if input.dtype != dtype:
            mine, its = (str(d).replace("torch.f", "F") for d in (input.dtype, dtype))
            raise RuntimeError(
                "CastToFp8V2 input and output must have the same dtype for float8, but are "
                f"{mine} and {its}"
            )
        return input.clone(), _largest(input, False)
    casted = cast_to_fp8(input, scale, stochastic_rounding, dtype, scale_shape)
    return casted, _largest(input, is_amax)


@operator(
    "cast_to_fp8(Tensor input, Tensor? scale, bool stochastic_rounding, Tensor(a!) out, "
    "Tensor(b!) amax) -> (Tensor(a!), Tensor(b!))",
    draws=True,
)
def cast_to_fp8_out(
    input: Tensor, scale: Tensor | None, stochastic_rounding: bool, out: Tensor, amax: Tensor
) -> tuple[Tensor, Tensor]:
    dtype = out.dtype if out.dtype in FP8 else torch.float8_e5m2
    casted = cast_to_fp8(input, scale, stochastic_rounding, dtype)
    if amax.numel():
        amax.copy_(_largest(input, True).expand_as(amax))
    out.copy_(casted if out.dtype == dtype else casted.view(out.dtype))
    return out, amax


@operator(
    "cast_to_fp8_hybrid(Tensor input, Tensor? scale_152=None, Tensor? scale_143=None, bool "
    "stochastic_rounding=False, bool is_amax=False) -> (Tensor, Tensor, Tensor)",
    draws=True,
)
def cast_to_fp8_hybrid(
    input: Tensor,
    scale_152: Tensor | None = None,
    scale_143: Tensor | None = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Stochastic rounding concerns e5m2."""
    return (
        cast_to_fp8(input, scale_152, stochastic_rounding, torch.float8_e5m2),
        cast_to_fp8(input, scale_143, False, torch.float8_e4m3fn),
        _largest(input, is_amax),
    )


@operator(
    *(
        f"cast_from_fp8{overload}(Tensor input, {scale} scale, ScalarType out_dtype, "
        "int[]? scale_shape=None) -> Tensor"
        for overload, scale in (("", "Tensor?"), (".scalar", "float"), (".scalar_list", "float[]"))
    )
)
def cast_from_fp8(
    input: Tensor, scale: Scale, out_dtype: torch.dtype, scale_shape: Sequence[int] | None = None
) -> Tensor:
    return scaled(wide(input), factor(scale, input, out_dtype, scale_shape)).to(out_dtype)


@operator(
    *(
        f"fp8_gemm_v2{overload}(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor? D, "
        f"ScalarType out_dtype, {scale} A_scale_inv{default}, {scale} B_scale_inv{default}, "
        "Tensor? bias=None, bool accumulate=False, int[]? B_scale_shape=None) -> Tensor"
        for overload, scale, default in (
            ("", "Tensor?", "=None"),
            (".scalar", "float", ""),
            (".scalar_list", "float[]", ""),
        )
    )
)
def fp8_gemm_v2(
    A: Tensor,
    trans_A: bool,
    B: Tensor,
    trans_B: bool,
    D: Tensor | None,
    out_dtype: torch.dtype,
    A_scale_inv: Scale = None,
    B_scale_inv: Scale = None,
    bias: Tensor | None = None,
    accumulate: bool = False,
    B_scale_shape: Sequence[int] | None = None,
) -> Tensor:
    """The product in f32 times both scales, plus bias and, to accumulate, D."""
    if accumulate and D is None:
        raise RuntimeError(
            "hpu::fp8_gemm_v2: accumulate is true and D is None; give what to add to"
        )
    a, b = wide(A), wide(B)
    product = (a.mT if trans_A else a) @ (b.mT if trans_B else b)
    by = (
        factor(A_scale_inv, A, torch.float32),
        factor(B_scale_inv, A, torch.float32, B_scale_shape),
    )
    product = scaled(product, *by)
    if bias is not None:
        product = product + wide(bias)
    if accumulate and D is not None:
        product = product + wide(D)
    return product.to(out_dtype)


@operator(
    "fp8_gemm(Tensor A, bool trans_A, Tensor B, bool trans_B, Tensor D, ScalarType out_dtype, "
    "Tensor? A_scale_inv, Tensor? B_scale_inv, Tensor? bias, bool accumulate, Tensor(a!) out) "
    "-> Tensor(a!)"
)
def fp8_gemm(
    A: Tensor,
    trans_A: bool,
    B: Tensor,
    trans_B: bool,
    D: Tensor,
    out_dtype: torch.dtype,
    A_scale_inv: Tensor | None,
    B_scale_inv: Tensor | None,
    bias: Tensor | None,
    accumulate: bool,
    out: Tensor,
) -> Tensor:
    product = (A, trans_A, B, trans_B, D, out_dtype, A_scale_inv, B_scale_inv, bias, accumulate)
    return out.copy_(fp8_gemm_v2(*product))


@operator(
    "conv2d_fp8(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, "
    "SymInt[2] padding=0, SymInt[2] dilation=1, int groups=1, ScalarType? out_dtype=None, "
    "Tensor? scale_input=None, Tensor? scale_weight=None) -> Tensor",
    "conv2d_fp8.scalar(Tensor input, Tensor weight, Tensor? bias, SymInt[2] stride, "
    "SymInt[2] padding, SymInt[2] dilation, int groups, ScalarType? out_dtype, "
    "float scale_input, float scale_weight) -> Tensor",
)
def conv2d_fp8(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    out_dtype: torch.dtype | None = None,
    scale_input: Scale = None,
    scale_weight: Scale = None,
) -> Tensor:
    """A scale of the weight is a number or one for each channel of the result."""
    y = torch.conv2d(wide(input), wide(weight), None, stride, padding, dilation, groups)
    by = factor(scale_weight, input, torch.float32)
    if by is not None and by.numel() > 1:
        by = by.reshape(-1, 1, 1)
    y = scaled(y, factor(scale_input, input, torch.float32), by)
    if bias is not None:
        y = y + wide(bias).reshape(-1, 1, 1)
    return y.to(torch.bfloat16 if out_dtype is None else out_dtype)


@operator(
    "sum_fp8(Tensor self, int[1]? dim=None, bool keepdim=False, ScalarType? out_dtype=None) "
    "-> Tensor"
)
def sum_fp8(
    self: Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    dims = list(range(self.dim())) if not dim else list(dim)
    total = wide(self).sum(dims, keepdim)
    return total.to(self.dtype if out_dtype is None else out_dtype)


_SOFTMAX = (
    "(Tensor input, int dim, {0}{2} input_scale{3}, {0}{2} output_scale{3}, {1} "
    "inv_attn_heads{4}, Tensor? fused_add=None) -> Tensor"
)


@operator(
    "softmax_fp8" + _SOFTMAX.format("Tensor", "Tensor?", "?", "=None", "=None"),
    "softmax_fp8.Scalar" + _SOFTMAX.format("float", "float", "", "", ""),
    "softmax_fp8.Scalar_scales" + _SOFTMAX.format("float", "Tensor?", "", "", "=None"),
)
def softmax_fp8(
    input: Tensor,
    dim: int,
    input_scale: Scale = None,
    output_scale: Scale = None,
    inv_attn_heads: Scale = None,
    fused_add: Tensor | None = None,
) -> Tensor:
    """With scales, which are given both or not at all, the result is e4m3; otherwise bf16."""
    if (input_scale is None) != (output_scale is None):
        raise RuntimeError("Output and input scales must be both given or None")
    x = scaled(
        wide(input),
        factor(inv_attn_heads, input, torch.float32),
        factor(input_scale, input, torch.float32),
    )
    if fused_add is not None:
        x = x + wide(fused_add)
    y = torch.softmax(x, dim)
    if output_scale is None:
        return y.to(torch.bfloat16)
    return saturated(scaled(y, factor(output_scale, input, torch.float32)), torch.float8_e4m3fn)
