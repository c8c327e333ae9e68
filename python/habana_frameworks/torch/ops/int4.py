"""Integers of 4 bits that are packed in words of 32: number i of a row of words is in the word
i / 8, at bit 4 (i % 8)."""

from __future__ import annotations

import torch
from torch import Tensor

from .definition import operator
from .fp8 import wide

_PER_WORD = 8
_ARGUMENTS = (
    "(Tensor input, Tensor scale, Tensor? zero_point, ScalarType out_dtype, Tensor? g_idx=None) "
    "-> Tensor"
)


def _numbers(words: Tensor, has_sign: bool) -> Tensor:
    shifts = torch.arange(0, 4 * _PER_WORD, 4, device=words.device, dtype=words.dtype)
    numbers = ((words.unsqueeze(-1) >> shifts) & 15).flatten(-2)
    return torch.where(numbers >= 8, numbers - 16, numbers) if has_sign else numbers


def _by_row(factor: Tensor, rows: int, g_idx: Tensor | None) -> Tensor:
    """Factors of groups of rows as factors of rows."""
    if factor.dim() != 2 or factor.shape[0] in (1, rows):
        return factor
    if g_idx is not None:
        return factor[g_idx]
    return factor.repeat_interleave(rows // factor.shape[0], 0)


def _converted(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    out_dtype: torch.dtype,
    g_idx: Tensor | None,
    has_sign: bool,
) -> Tensor:
    numbers = (
        wide(_numbers(input, has_sign))
        if scale.dtype != torch.float64
        else _numbers(input, has_sign).double()
    )
    if zero_point is not None:
        packed = zero_point.dtype == torch.int32
        zero = _numbers(zero_point, has_sign) if packed else zero_point
        numbers = numbers - _by_row(wide(zero), input.shape[0], g_idx)
    return (numbers * _by_row(wide(scale), input.shape[0], g_idx)).to(out_dtype)


@operator(f"convert_from_uint4{_ARGUMENTS}")
def convert_from_uint4(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    out_dtype: torch.dtype,
    g_idx: Tensor | None = None,
) -> Tensor:
    """(number - zero) * scale; zeros are packed or floats. Scales and zeros are those of the
    columns, of groups of rows, which lie together or are named by g_idx."""
    return _converted(input, scale, zero_point, out_dtype, g_idx, False)


@operator(f"convert_from_int4{_ARGUMENTS}")
def convert_from_int4(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    out_dtype: torch.dtype,
    g_idx: Tensor | None = None,
) -> Tensor:
    return _converted(input, scale, zero_point, out_dtype, g_idx, True)
