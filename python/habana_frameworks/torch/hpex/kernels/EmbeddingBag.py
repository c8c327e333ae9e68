"""Sums of rows of an embedding table, forwards and backwards. Scripts call the module itself."""

from __future__ import annotations

import torch
from torch import Tensor


def forward(
    input: Tensor, indices: Tensor, offsets: Tensor, valid_count: Tensor, kernel_mode: int
) -> Tensor:
    """Row i: the sum of the table's rows at indices[offsets[i]:offsets[i + 1]]. valid_count has the
    numbers of offsets and of indices that are valid; kernel_mode has no effect."""
    sums: Tensor = torch.ops.hpu.embedding_bag_sum(
        input, indices, offsets, valid_count, kernel_mode
    )
    return sums


def backward(
    out: Tensor,
    input: Tensor,
    indices: Tensor,
    offsets: Tensor,
    valid_count: Tensor,
    kernel_mode: int,
) -> Tensor:
    """Writes such sums of the rows of a gradient to the first rows of `out`, one for each unique
    index (EmbeddingBagPreproc)."""
    torch.ops.hpu.embedding_bag_sum_bwd_out(out, input, indices, offsets, valid_count, kernel_mode)
    return out
