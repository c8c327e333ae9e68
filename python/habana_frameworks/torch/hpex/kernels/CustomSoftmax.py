"""The softmax over the last dimension whose exponential a card approximates."""

from __future__ import annotations

import torch
from torch import Tensor


class CustomSoftmax:
    @staticmethod
    def apply(inp: Tensor, flavor: int = 0) -> Tensor:
        """flavor: which approximation a card uses. Here all are the same exact softmax."""
        y: Tensor = torch.ops.hpu.custom_softmax(inp, flavor)
        return y
