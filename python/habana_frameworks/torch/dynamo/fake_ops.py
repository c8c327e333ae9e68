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


def _as_on_cpu(original: Callable[..., Any]) -> Callable[..., Any]:
    def convolution(fake_mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        device = (args[0] if args else kwargs["input"]).device
        if device.type != "hpu":
            return original(fake_mode, func, *args, **kwargs)

        def on_cpu(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)

        with fake_mode:
            args = tuple(map(on_cpu, args))
            kwargs = {name: on_cpu(value) for name, value in kwargs.items()}
            like = original(fake_mode, func, *args, **kwargs)
            return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)

    return convolution


def register() -> None:
    """May be called again."""
    for module in (fake_impls, torch._refs):
        setattr(module, "is_noncontiguous_supported", lambda device: True)  # noqa: B010
    table = fake_impls.op_implementations_dict
    op = torch.ops.aten.convolution.default
    if table[op].__module__ != __name__:
        table[op] = _as_on_cpu(table[op])
