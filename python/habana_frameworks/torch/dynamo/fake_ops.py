"""Fake tensors on hpu get the strides that eager ops give there.

A graph traced with other strides refuses views that eager code makes. PyTorch presumes that

- every hpu result is contiguous, which holds for the fork's device and not for this one;
- a convolution backend that it does not know makes row-major results; an eager convolution on hpu
  keeps channels-last, as on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._refs
from torch._subclasses import fake_impls

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def _keeps_channels_last(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """The rule of ATen's CPU convolutions (mkldnn_conv_use_channels_last)."""
    format = _FORMATS.get(x.dim())
    if format is None or x.dtype == torch.float64 or weight.dtype == torch.float64:
        return False
    return any(t.is_contiguous(memory_format=format) and not t.is_contiguous() for t in (x, weight))


def _on_hpu(original: Callable[..., Any]) -> Callable[..., Any]:
    def convolution(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(fake_mode, func, *args, **kwargs)
        x, weight = args[:2] if len(args) > 1 else (kwargs["input"], kwargs["weight"])
        if x.device.type != "hpu" or not _keeps_channels_last(x, weight):
            return result
        with fake_mode:
            return result.contiguous(memory_format=_FORMATS[x.dim()])

    return convolution


def register() -> None:
    """May be called again."""
    for module in (fake_impls, torch._refs):
        setattr(module, "is_noncontiguous_supported", lambda device: True)  # noqa: B010
    table = fake_impls.op_implementations_dict
    op = torch.ops.aten.convolution.default
    if table[op].__module__ != __name__:
        table[op] = _on_hpu(table[op])
