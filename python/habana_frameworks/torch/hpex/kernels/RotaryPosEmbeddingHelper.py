"""Rotary position embeddings in the forms of several models. Their gradient is that of
`torch.ops.hpu.rotary_pos_embedding`; sines and cosines get none."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
from torch import Tensor


class RotaryPosEmbeddingMode(Enum):
    """Says which elements of a head are rotated together."""

    BLOCKWISE = 0  # those at the same place of its two halves
    PAIRWISE = 1  # neighbours


def _in_one_type(p: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All in f32 if one of them is f32, else in p's type."""
    wide = torch.float32 in (p.dtype, cos.dtype, sin.dtype)
    dtype = torch.float32 if wide else p.dtype
    return p.to(dtype), cos.to(dtype), sin.to(dtype)


def apply_rotary_pos_emb(p: Tensor, *args: Any) -> Tensor:
    """Rotates the pairs of elements of each head.

    args: cos, sin, then position_ids (which rows of cos and sin are read; None for all), offset
    (from which column on they are read, without position_ids) and mode. Or a rope cache alone."""
    if len(args) == 1:
        return RotaryPosEmbeddingHelperV3.apply(p, args[0])
    return _rotated(p, *args)


def _rotated(
    p: Tensor,
    cos: Tensor,
    sin: Tensor,
    position_ids: Tensor | None = None,
    offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> Tensor:
    if not isinstance(mode, RotaryPosEmbeddingMode):
        raise TypeError(
            f"apply_rotary_pos_emb: mode is {mode!r}; pass a member of RotaryPosEmbeddingMode: "
            "BLOCKWISE or PAIRWISE"
        )
    p, cos, sin = _in_one_type(p, cos, sin)
    rotated: Tensor = torch.ops.hpu.rotary_pos_embedding(
        p, sin, cos, position_ids, offset, mode.value
    )
    return rotated


class RotaryPosEmbeddingHelperV1:
    """As in GPT-NeoX and LLaMA of older versions of transformers."""

    @staticmethod
    def apply(p: Tensor, cos: Tensor, sin: Tensor, offset: int) -> Tensor:
        return apply_rotary_pos_emb(p, cos, sin, None, offset)


class RotaryPosEmbeddingHelperV2:
    """As in newer ones: position_ids [batch, length] choose rows of cos and sin, whose shape is
    [1, 1, positions, size]."""

    @staticmethod
    def apply(p: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor) -> Tensor:
        return apply_rotary_pos_emb(p, cos, sin, position_ids)


class RotaryPosEmbeddingHelperV3:
    """As in ChatGLM: p is [length, batch, heads, size]. Its first elements are rotated, two for
    each pair (cosine, sine) of the cache [positions, pairs, 2]; the others stay."""

    @staticmethod
    def apply(p: Tensor, rope_cache: Tensor) -> Tensor:
        length, heads, size = p.shape[0], p.shape[2], 2 * rope_cache.shape[-2]
        turned, kept = p[..., :size], p[..., size:]
        pairs = rope_cache[:length].reshape(length, -1, 1, size // 2, 2)
        cos, sin = (pairs[..., which].repeat_interleave(2, dim=-1).to(p.dtype) for which in (0, 1))
        rotated: Tensor = torch.ops.hpu.rotary_pos_embedding(
            turned.reshape(length, -1, heads, size), sin, cos, None, 0, 1
        )
        return torch.cat((rotated, kept), -1) if kept.shape[-1] else rotated
