"""The loss of connectionist temporal classification."""

from __future__ import annotations

import torch
from torch import Tensor


class CTCLoss:
    @staticmethod
    def apply(
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
    ) -> Tensor:
        """torch.nn.functional.ctc_loss, whose kernel is the CPU's."""
        return torch.nn.functional.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
        )
