"""Clipping of gradients."""

from __future__ import annotations

import torch

from ..torch_compat.replaced import original, replace

_HAS_FOREACH = "torch.nn.utils.clip_grad._device_has_foreach_support"


def allow_foreach() -> None:
    """Lets `clip_grad_norm_(..., foreach=True)` and its siblings take hpu, as they take the CPU.
    PyTorch asks this function only for an explicit True; without one the loop stays."""
    has_foreach = original(_HAS_FOREACH)

    def _device_has_foreach_support(device: torch.device) -> bool:
        return device.type == "hpu" or has_foreach(device)

    replace(_HAS_FOREACH, _device_has_foreach_support)
