"""Decompositions of the ATen ops for which the compile server has no rule: PyTorch's own, and those
that it lacks.

Used where they end in ops that it knows (recorder.py); any other op stays as it is and runs
eagerly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from .aten_rules import ATEN_RULES


def _weight_norm_backward(
    grad_w: torch.Tensor,
    saved_v: torch.Tensor,
    saved_g: torch.Tensor,
    saved_norms: torch.Tensor,
    dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of w = v * (g / |v|), a norm for each place in `dim`. The CPU kernel, which an eager step
    would call, takes every operand as contiguous without looking."""
    others = [d for d in range(saved_v.dim()) if d != dim]
    along = (grad_w * saved_v).sum(others, keepdim=True) / saved_norms
    grad_v = (saved_g / saved_norms) * (grad_w - saved_v * (along / saved_norms))
    return grad_v.to(saved_v.dtype).contiguous(), along.to(saved_g.dtype).contiguous()


def overwrites_all(
    self: torch.Tensor,
    src: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> bool:
    """True for an as_strided_scatter that replaces every element of a contiguous tensor."""
    expected = 1
    for n, step in sorted(zip(size, stride, strict=True), key=lambda pair: pair[1]):
        if n != 1 and step != expected:
            return False
        expected *= n
    return self.is_contiguous() and self.numel() == expected and not storage_offset


def _as_strided_scatter(
    self: torch.Tensor,
    src: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> torch.Tensor:
    """Of one that overwrites all: its source in the order of memory."""
    order = sorted(range(src.dim()), key=lambda d: -stride[d])
    return src.permute(order).reshape(self.shape).clone()


_OWN: dict[OpOverload, Callable[..., Any]] = {
    torch.ops.aten._weight_norm_interface_backward.default: _weight_norm_backward,
    torch.ops.aten.as_strided_scatter.default: _as_strided_scatter,
}


@functools.cache
def find_decomposition(op: OpOverload) -> Callable[..., Any] | None:
    """The function that computes `op` by other ops; None if the server takes `op` itself, or if
    there is none."""
    if op.namespace != "aten" or str(op) in ATEN_RULES:
        return None
    if op in _OWN:
        return _OWN[op]
    if op._can_decompose():
        decompose: Callable[..., Any] = op.decompose
        return decompose
    # Imported here: graphs of known ops never need it.
    from torch._decomp import decomposition_table

    return decomposition_table.get(op)
