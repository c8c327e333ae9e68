"""Printing of tensors."""

from __future__ import annotations

from typing import Any

import torch

from ..torch_compat.replaced import original, replace

_TEXT = "torch._tensor_str._tensor_str"


def copy_before_printing() -> None:
    """The text of a tensor is made on the CPU, as PyTorch does it for XLA. Otherwise it would take
    dozens of operators on the device, each on sizes of its own, and f64, which the device does not
    have."""
    text_of = original(_TEXT)

    def text_of_copy(self: torch.Tensor, indent: int) -> Any:
        return text_of(self.cpu() if self.device.type == "hpu" else self, indent)

    replace(_TEXT, text_of_copy)
