"""Clipping and RMS norm under the names that Gaudi scripts use."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import torch
from torch import Tensor


class FusedClipNorm:
    """Applies torch.nn.utils.clip_grad_norm_ with the Euclidean norm. parameters: accepted, but not
    kept."""

    def __init__(self, parameters: Iterable[Tensor], max_norm: float) -> None:
        self.max_norm = float(max_norm)

    def clip_norm(self, parameters: Iterable[Tensor] | Tensor) -> Tensor:
        """Scales the gradients in place; returns the norm that they had before."""
        return torch.nn.utils.clip_grad_norm_(parameters, self.max_norm)


class RmsNormBwdMode(Enum):
    """How a card divides the work of the backward."""

    DEFAULT = 0
    STATIC_CASE_WIDTH_PARTITIONING = 1


class FusedRMSNorm:
    @staticmethod
    def apply(
        data_in: Tensor,
        gamma: Tensor,
        eps: float,
        use_stages: bool = True,
        bwd_mode: int = 0,
        fast_math: bool = False,
    ) -> Tensor:
        """Normalises over the last dimension, in data_in's type. The last three arguments have no
        effect; bwd_mode is the value of a RmsNormBwdMode."""
        weight = gamma.to(data_in.dtype)
        return torch.nn.functional.rms_norm(data_in, [data_in.shape[-1]], weight, eps)
