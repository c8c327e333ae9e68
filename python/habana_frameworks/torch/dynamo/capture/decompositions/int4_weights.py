"""Weights of 4 bits as PyTorch's CPU kernels pack them.

`aten._convert_weight_to_int4pack_for_cpu` packs blocks of columns; a block has as many columns as
four vectors of this process's CPU capability hold. `aten._weight_int4pack_mm_for_cpu` unpacks them
by the same rule, without an argument that says so. A compile server cannot know the rule, so
captured graphs hold `hpu::int4_matmul`, which names the columns of a block, and so do keys.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ....torch_compat.graph_calls import weight_int4pack_mm_for_cpu

# Columns of a block by CPU capability. Without vectors, and in a last block that is not whole,
# neighbours share a byte instead; PyTorch's own kernel computes with such weights.
_COLUMNS = {"AVX2": 32, "AVX512": 64}


@functools.cache
def block_columns() -> int:
    """The columns of a block; 0 if weights are not packed in blocks."""
    return _COLUMNS.get(torch.backends.cpu.get_cpu_capability(), 0)


@torch.library.custom_op("hpu::int4_matmul", mutates_args=())
def int4_matmul(
    x: torch.Tensor,
    weights: torch.Tensor,
    group: int,
    scales_and_zeros: torch.Tensor,
    columns: int,
) -> torch.Tensor:
    """x times weights packed by this process; an eager step runs this."""
    if columns != block_columns():
        raise RuntimeError(
            f"hpu::int4_matmul: weights in blocks of {columns} columns, but PyTorch's kernels here "
            f"take blocks of {block_columns()} (ATEN_CPU_CAPABILITY): pack them again"
        )
    y: torch.Tensor = weight_int4pack_mm_for_cpu(x, weights, group, scales_and_zeros)
    return y


@int4_matmul.register_fake
def _(
    x: torch.Tensor,
    weights: torch.Tensor,
    group: int,
    scales_and_zeros: torch.Tensor,
    columns: int,
) -> torch.Tensor:
    return x.new_empty(x.shape[0], weights.shape[0])


def record_int4_matmul(
    x: torch.Tensor, weights: torch.Tensor, group: int, scales_and_zeros: torch.Tensor
) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """The call of hpu::int4_matmul for a call of aten._weight_int4pack_mm_for_cpu, where that is
    possible."""
    columns = block_columns()
    if columns == 0 or weights.shape[0] % columns != 0:
        return None
    op = torch.ops.hpu.int4_matmul.default
    return op, (x, weights, group, scales_and_zeros, columns), {}
