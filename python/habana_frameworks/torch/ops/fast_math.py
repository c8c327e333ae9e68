"""Functions that a card approximates faster; here they are the exact ones."""

from __future__ import annotations

import torch
from torch import Tensor

from .definition import operator


@operator("exp_fast_math(Tensor self) -> Tensor")
def exp_fast_math(self: Tensor) -> Tensor:
    return torch.exp(self)


@operator("sqrt_fast_math(Tensor self) -> Tensor")
def sqrt_fast_math(self: Tensor) -> Tensor:
    return torch.sqrt(self)


@operator("rsqrt_fast_math(Tensor self) -> Tensor")
def rsqrt_fast_math(self: Tensor) -> Tensor:
    return torch.rsqrt(self)
