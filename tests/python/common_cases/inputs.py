"""Inputs of the rows."""

from __future__ import annotations

from typing import Any

import torch

Row = tuple[Any, ...]


def tensor(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(sizes) + sum(sizes))
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.rand(sizes, generator=generator) < 0.5
    low = 0 if dtype == torch.uint8 else -9
    return torch.randint(low, 10, sizes, generator=generator).to(dtype)


A, B, V = tensor(4, 6), tensor(6, 5), tensor(6)
C, IMAGE = tensor(2, 3, 4), tensor(2, 4, 9, 7)
I64, I32, U8, I8 = (
    tensor(4, 6, dtype=t) for t in (torch.int64, torch.int32, torch.uint8, torch.int8)
)
MASK, NONE = tensor(4, 6, dtype=torch.bool), torch.empty(0, 6)
HALF, BRAIN = tensor(4, 6, dtype=torch.float16), tensor(4, 6, dtype=torch.bfloat16)
ROWS = torch.tensor([3, 0, 2, 0])
TIES = torch.tensor([[3.0, 1.0, 3.0, 3.0], [2.0, 2.0, 2.0, 2.0], [-1.0, 0.0, -0.0, 0.0]])
EDGES = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0])
SPECIAL = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.5, -2.5, 0.5])
