"""Casts to fp8 and from it by the scales of a layer."""

from __future__ import annotations

import torch

from .scaling import FP8TensorMeta, largest, quantize


def cast_to_fp8(
    x: torch.Tensor,
    fp8_meta: FP8TensorMeta,
    fp8_tensor: int,
    dtype: torch.dtype,
    stochastic_rounding: bool = False,
    measure_amax: bool = True,
) -> torch.Tensor:
    """x by scale number `fp8_tensor` in fp8. measure_amax: writes its largest element into the row
    of the newest measurement."""
    scale = fp8_meta.scale[fp8_tensor]
    if measure_amax:
        row = getattr(fp8_meta, "amax_history_index", 0)
        fp8_meta.amax_history[row, fp8_tensor] = largest(x)
    return quantize(x, scale, dtype, stochastic_rounding)


def cast_from_fp8(
    x: torch.Tensor, fp8_meta: FP8TensorMeta, fp8_tensor: int, dtype: torch.dtype
) -> torch.Tensor:
    """The numbers of x without their scale."""
    return (x.float() * fp8_meta.scale_inv[fp8_tensor]).to(dtype)
