"""Finds out, on the host, what the backward of an embedding needs to know of a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def forward(
    indices: Tensor, offsets: Tensor, embedding_table_len: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Groups the places of equal indices: how many unique indices there are, the indices in rising
    order, and for each of them the bags that it occurs in, as bags and offsets. All but the count
    are int32 on the CPU and as long as the input allows; what is behind the valid part is 0."""
    index, offset = indices.cpu().reshape(-1).long(), offsets.cpu().reshape(-1).long()
    bags = torch.repeat_interleave(torch.arange(offset.numel() - 1), offset.diff())
    order = torch.argsort(index[: bags.numel()], stable=True)
    unique, counts = torch.unique_consecutive(index[order], return_counts=True)
    found, rows = (torch.zeros(index.numel(), dtype=torch.int32) for _ in range(2))
    begins = torch.zeros(index.numel() + 1, dtype=torch.int32)
    found[: unique.numel()] = unique
    rows[: order.numel()] = bags[order]
    begins[1 : unique.numel() + 1] = counts.cumsum(0)
    return torch.tensor([unique.numel()]), found, rows, begins
