"""Sums of rows of a table, as DLRM's embeddings have them."""

from __future__ import annotations

import torch
from torch import Tensor

from .definition import operator


def _bags(table: Tensor, indices: Tensor, offsets: Tensor, valid_count: Tensor) -> Tensor:
    """Row i is the sum of the table's rows at indices[offsets[i]:offsets[i + 1]]. valid_count: how
    many offsets and indices are valid; what is behind them adds nothing."""
    count = offsets.numel() - 1
    known, used = valid_count[0].long(), valid_count[1].long()
    places = torch.arange(indices.numel(), device=indices.device)
    numbers = torch.arange(count + 1, device=offsets.device)
    # The offsets behind the valid ones begin after all indices.
    begins = torch.where(numbers < known, offsets.reshape(-1).long(), indices.numel())
    bag = torch.searchsorted(begins, places, right=True) - 1
    valid = torch.logical_and(places < used, torch.logical_and(bag >= 0, bag + 1 < known))
    rows = table[torch.where(valid, indices.reshape(-1).long(), 0)]
    rows = torch.where(valid.unsqueeze(-1), rows, 0.0)
    result = torch.zeros(count, table.shape[-1], dtype=table.dtype, device=table.device)
    return result.index_add(0, torch.where(valid, bag, 0), rows)


@operator(
    "embedding_bag_sum(Tensor input, Tensor indices, Tensor offsets, Tensor valid_count, "
    "int kernel_mode) -> Tensor"
)
def embedding_bag_sum(
    input: Tensor, indices: Tensor, offsets: Tensor, valid_count: Tensor, kernel_mode: int
) -> Tensor:
    return _bags(input, indices, offsets, valid_count)


@operator(
    "embedding_bag_sum_bwd_out(Tensor(a!) out, Tensor input, Tensor indices, Tensor offsets, "
    "Tensor valid_count, int kernel_mode) -> Tensor(a!)"
)
def embedding_bag_sum_bwd_out(
    out: Tensor,
    input: Tensor,
    indices: Tensor,
    offsets: Tensor,
    valid_count: Tensor,
    kernel_mode: int,
) -> Tensor:
    """Writes the sums to the first rows of `out`."""
    sums = _bags(input, indices, offsets, valid_count)
    count = min(out.shape[0], sums.shape[0])
    out[:count].copy_(sums[:count])
    return out
