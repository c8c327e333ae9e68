"""Rotary position embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .definition import operator

# These elements of a head are rotated together: those at the same place of its halves, or
# neighbours.
BLOCKWISE, PAIRWISE = 0, 1


def _factors(p: Tensor, factors: Tensor, position_ids: Tensor | None, offset: int) -> Tensor:
    """Sines or cosines as factors of p: the rows at position_ids, or, of more columns than p has,
    those from `offset`."""
    if position_ids is not None:
        # [.., positions, size] -> [batch, 1, length, size]
        rows = factors.reshape(factors.shape[-2:])[position_ids]
        return rows.unsqueeze(1) if p.dim() == 4 else rows
    if factors.shape[-1] > p.shape[-1]:
        return factors[..., offset : offset + p.shape[-1]]
    return factors


def _check(
    name: str,
    p: Tensor,
    sin: Tensor,
    cos: Tensor,
    position_ids: Tensor | None,
    offset: int,
    mode: int,
) -> None:
    if mode not in (BLOCKWISE, PAIRWISE):
        raise RuntimeError(f"hpu::{name}: mode is {mode}; it is 0 (blockwise) or 1 (pairwise)")
    if p.shape[-1] % 2 or sin.shape != cos.shape:
        raise RuntimeError(
            f"hpu::{name}: input {list(p.shape)}, sin {list(sin.shape)} and cos "
            f"{list(cos.shape)}: the input's last size is even, and sin and cos have equal sizes"
        )
    columns, size = sin.shape[-1], p.shape[-1]
    if columns < size or (position_ids is not None and columns > size):
        raise RuntimeError(
            f"hpu::{name}: sin and cos have {columns} columns for an input {list(p.shape)}: pass "
            f"{size}, one for each element of a head"
        )
    if columns > size and not 0 <= offset <= columns - size:
        raise RuntimeError(
            f"hpu::{name}: offset {offset} leaves fewer than {size} of the {columns} columns of "
            f"sin and cos for an input {list(p.shape)}: pass an offset from 0 to {columns - size}"
        )


def _wide(x: Tensor) -> Tensor:
    """Formulas are calculated in f32, as recipes do."""
    return x if x.dtype == torch.float64 else x.float()


def _turned(p: Tensor, mode: int, forward: bool) -> Tensor:
    """Each pair (x, y) as (-y, x); of the backward (y, -x)."""
    if mode == BLOCKWISE:
        x, y = p.chunk(2, -1)
        return torch.cat((-y, x) if forward else (y, -x), -1)
    x, y = p[..., ::2], p[..., 1::2]
    return torch.stack((-y, x) if forward else (y, -x), -1).flatten(-2)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, sin, cos, position_ids, offset, mode = inputs
    ctx.save_for_backward(sin, cos, position_ids)
    ctx.offset, ctx.mode = offset, mode


def _gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    sin, cos, position_ids = ctx.saved_tensors
    found = torch.ops.hpu.rotary_pos_embedding_backward(
        grad, sin, cos, position_ids, ctx.offset, ctx.mode
    )
    return found, None, None, None, None, None


@operator(
    "rotary_pos_embedding(Tensor input, Tensor sin, Tensor cos, Tensor? position_ids, int offset, "
    "int mode) -> Tensor",
    gradient=_gradient,
    save=_save,
)
def rotary_pos_embedding(
    input: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int
) -> Tensor:
    _check("rotary_pos_embedding", input, sin, cos, position_ids, offset, mode)
    s, c = (_wide(_factors(input, x, position_ids, offset)) for x in (sin, cos))
    p = _wide(input)
    return (p * c + _turned(p, mode, True) * s).to(input.dtype)


@operator(
    "rotary_pos_embedding_backward(Tensor grad_in, Tensor sin, Tensor cos, Tensor? position_ids, "
    "int offset, int mode) -> Tensor"
)
def rotary_pos_embedding_backward(
    grad_in: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int
) -> Tensor:
    _check("rotary_pos_embedding_backward", grad_in, sin, cos, position_ids, offset, mode)
    s, c = (_wide(_factors(grad_in, x, position_ids, offset)) for x in (sin, cos))
    g = _wide(grad_in)
    return (g * c + _turned(g * s, mode, False)).to(grad_in.dtype)
