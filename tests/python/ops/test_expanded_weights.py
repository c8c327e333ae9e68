"""Convolutions whose groups read the same weights, because the weight is an expanded view."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from eager_case import place_on_cpu

# Input channels, groups, and the weight before it is expanded to as many first channels as given.
SHAPES = {
    "one input a group": (4, 4, (1, 1), 4),
    "two inputs a group": (4, 2, (1, 2), 4),
    "several outputs a group": (6, 3, (1, 2), 9),
    "one group": (4, 1, (1, 4), 8),
}
TRANSPOSED = {
    "one output a group": (4, 2, (1, 1), 4),
    "two outputs a group": (6, 3, (1, 2), 6),
    "one group": (4, 1, (1, 3), 4),
}


def operands(rank: int, channels: int, weight: tuple[int, ...], first: int, kernel: int):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels, *[6] * rank, generator=generator)
    w = torch.randn(*weight, *[kernel] * rank, generator=generator)
    return x, w, (first, *w.shape[1:])


# bf16 has packed weights of its own.
@pytest.mark.parametrize(
    ("rank", "dtype"),
    [(1, torch.float32), (2, torch.float32), (3, torch.float32), (2, torch.bfloat16)],
)
@pytest.mark.parametrize("kernel", [1, 2])
@pytest.mark.parametrize(
    ("transposed", "name"), [(False, n) for n in SHAPES] + [(True, n) for n in TRANSPOSED]
)
def test_groups_share_weights(transposed, name, kernel, rank, dtype) -> None:
    channels, groups, weight, first = (TRANSPOSED if transposed else SHAPES)[name]
    x, w, sizes = operands(rank, channels, weight, first, kernel)
    x, w = x.to(dtype), w.to(dtype)
    kind = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    call = getattr(F, kind)
    expected = call(x.float(), w.float().expand(sizes), groups=groups)
    with place_on_cpu("none"):
        found = call(x.to("hpu"), w.to("hpu").expand(sizes), groups=groups)
    bound = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-2, "atol": 1e-2}
    torch.testing.assert_close(found.cpu().float(), expected, **bound)
