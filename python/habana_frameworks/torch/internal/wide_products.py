"""torch.matmul with a wider `out` than its operands: bf16 times bf16 into f32, for example.

PyTorch refuses that. Gaudi's matrix engine sums in f32 and may store the sums as they are, and
programs for Gaudi keep the scores of attention wide in this way. The operands are widened first,
which is exact, so the result is rounded once, to the type of `out`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..torch_compat.dispatcher import DispatchKey

_registered: list[torch.library.Library] = []


def _matmul_out(x: Tensor, y: Tensor, *, out: Tensor) -> Tensor:
    op = torch.ops.aten.matmul.out
    composed = DispatchKey.CompositeImplicitAutograd
    if x.dtype == y.dtype and _is_wider(out.dtype, x.dtype):
        x, y = x.to(out.dtype), y.to(out.dtype)
    result: Tensor = op._op_dk(composed, x, y, out=out)
    return result


def _is_wider(one: torch.dtype, other: torch.dtype) -> bool:
    both_float = one.is_floating_point and other.is_floating_point
    return both_float and one.itemsize > other.itemsize


def register() -> None:
    """Replaces the operator for eager calls on hpu. What PyTorch traces takes its decomposition,
    which allows a wider `out`. Call it once."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("matmul.out", _matmul_out, "HPU")
    _registered.append(library)
