"""Recipes: which fp8 formats a step uses, and how it finds its scales."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch


class _Largest(NamedTuple):
    """The largest numbers of the formats of forward and backward."""

    max_fwd: float
    max_bwd: float


class Format(enum.Enum):
    """E4M3 and E5M2: one format for everything. HYBRID: e4m3 in the forward and e5m2 in the
    backward."""

    E4M3 = _Largest(448.0, 448.0)
    E5M2 = _Largest(57344.0, 57344.0)
    HYBRID = _Largest(448.0, 57344.0)


class _OverrideLinearPrecision(NamedTuple):
    """Says which products of a linear layer are not in fp8: the forward's, the one of the input's
    gradient, the one of the weight's gradient."""

    fprop: bool = False
    dgrad: bool = False
    wgrad: bool = False


@dataclass
class DelayedScaling:
    """A step takes the scales that follow from the largest elements of earlier steps.

    margin: the power of two by which a scale stays below the largest one. interval: elements are
    measured, and scales follow, in one of so many runs of a layer. amax_history_len: how many
    measurements are kept. amax_compute_algo: "max" or "most_recent" of them, or a function of the
    history, whose rows are measurements. scaling_factor_compute_algo: a function of amax, old
    scale, largest number of the format, and recipe. reduce_amax has no effect: there is one device.
    """

    margin: int = 0
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1
    amax_compute_algo: str | Callable[[torch.Tensor], torch.Tensor] = "most_recent"
    override_linear_precision: tuple[bool, bool, bool] = _OverrideLinearPrecision()
    scaling_factor_compute_algo: Callable[..., torch.Tensor] | None = None
    reduce_amax: bool = True

    def __post_init__(self) -> None:
        algorithm: Any = self.amax_compute_algo
        if not callable(algorithm) and algorithm not in ("max", "most_recent"):
            raise ValueError(
                f"DelayedScaling: amax_compute_algo={algorithm!r}; "
                'use "max", "most_recent" or a function'
            )
        if self.interval < 1 or self.amax_history_len < 1:
            raise ValueError(
                f"DelayedScaling: interval={self.interval} and "
                f"amax_history_len={self.amax_history_len} must be 1 at least"
            )
        if any(self.override_linear_precision):
            raise ValueError(
                "DelayedScaling: override_linear_precision is not supported; "
                "leave it as (False, False, False)"
            )


def dtype_of(fmt: Format, forward: bool) -> torch.dtype:
    e4m3 = fmt is Format.E4M3 or (fmt is Format.HYBRID and forward)
    return torch.float8_e4m3fn if e4m3 else torch.float8_e5m2
