"""Caches of keys and values of beams."""

from __future__ import annotations

import torch
from torch import Tensor

from .definition import operator
from .fp8 import wide

_BEAMS = 4


def _reordered(self: Tensor, start: Tensor, end: Tensor, beam_idx: Tensor) -> Tensor:
    sizes = (-1, 1, 1, 1, 1)
    packed = beam_idx.to(torch.int32)
    beams = [torch.bitwise_and(packed >> (2 * (_BEAMS - 1 - beam)), 3) for beam in range(_BEAMS)]
    source = torch.stack(beams, 1).to(torch.int64)[:, :, None, None, None].expand_as(self)
    place = torch.arange(self.shape[-2], device=self.device).unsqueeze(-1)
    chosen = torch.logical_and(place >= start.reshape(sizes), place < end.reshape(sizes))
    # The CPU has no gather of floats of 8 bits; they are exact in f32.
    x = wide(self) if self.is_floating_point() else self
    return torch.where(chosen, x.gather(1, source), x).to(self.dtype)


@operator("kv_reorder(Tensor self, Tensor start, Tensor end, Tensor beam_idx) -> Tensor")
def kv_reorder(self: Tensor, start: Tensor, end: Tensor, beam_idx: Tensor) -> Tensor:
    """self [batch, 4 beams, heads, places, size] with the places [start, end) of each beam taken
    from another beam of the same row of the batch. start, end and beam_idx are [batch]; a number of
    beam_idx holds the sources of its four beams with two bits each, the first beam's highest."""
    return _reordered(self, start, end, beam_idx)


@operator("kv_reorder_(Tensor(a!) self, Tensor start, Tensor end, Tensor beam_idx) -> Tensor(a!)")
def kv_reorder_(self: Tensor, start: Tensor, end: Tensor, beam_idx: Tensor) -> Tensor:
    return self.copy_(_reordered(self, start, end, beam_idx))
