"""Floats of 8 bits as functions: the operators of torch.ops.hpu of the same names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Scale = Tensor | float | Sequence[float] | None


def cast_to_fp8(
    input: Tensor,
    scale: Tensor | None,
    stochastic_rounding: bool,
    out: Tensor,
    amax: Tensor,
) -> tuple[Tensor, Tensor]:
    """Writes to out and amax."""
    torch.ops.hpu.cast_to_fp8(input, scale, stochastic_rounding, out, amax)
    return out, amax


def cast_to_fp8_v2(
    input: Tensor,
    scale: Scale = None,
    stochastic_rounding: bool = False,
    is_amax: bool = False,
    dtype: torch.dtype = torch.float8_e5m2,
    scale_shape: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    both: tuple[Tensor, Tensor] = torch.ops.hpu.cast_to_fp8_v2(
        input, scale, stochastic_rounding, is_amax, dtype, scale_shape
    )
    return both


def cast_from_fp8(
    input: Tensor,
    scale: Scale,
    out_dtype: torch.dtype,
    scale_shape: Sequence[int] | None = None,
) -> Tensor:
    wide: Tensor = torch.ops.hpu.cast_from_fp8(input, scale, out_dtype, scale_shape)
    return wide


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
    product: Tensor = torch.ops.hpu.fp8_gemm_v2(
        A, trans_A, B, trans_B, D, out_dtype, A_scale_inv, B_scale_inv, bias, accumulate,
        B_scale_shape,
    )  # fmt: skip
    return product
