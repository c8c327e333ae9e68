"""Positions and integers beyond 32 bits: the device counts in 32, so such calls stay PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import check, fresh_process

BEYOND = (1 << 31) + 8


RANGES: list[Callable[[torch.device], torch.Tensor]] = [
    lambda device: torch.arange(3_000_000_000, 3_000_000_005, device=device),
    lambda device: torch.arange(-(1 << 40), -(1 << 40) + 50, 10, device=device),
    lambda device: torch.arange(0, 1 << 34, 1 << 32, device=device),
    lambda device: torch.arange(2**31 - 3, 2**31 + 3, device=device),
    lambda device: torch.arange(2**31 - 9, 2**31 - 3, device=device),
]


@pytest.mark.parametrize("number", range(len(RANGES)))
def test_ranges_of_large_integers(number: int) -> None:
    check(lambda x: RANGES[number](x.device) + x, torch.zeros(1, dtype=torch.int64))


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.argmax(),
        lambda x: x.flip(0)[:4],
        lambda x: (x + 1)[-3:],
        lambda x: x.view(-1, 8).amax(1)[-3:],
        lambda x: x.sum(),
        lambda x: x[torch.tensor([0, BEYOND - 1, 5], device=x.device)],
        lambda x: x.view(8, -1).t().contiguous()[-1],
        lambda x: x.max(0).indices,
    ],
)
def test_more_than_2_31_elements(function: Callable[[torch.Tensor], Any]) -> None:
    fresh_process()
    x = torch.zeros(BEYOND, dtype=torch.int8)
    x[0], x[-1] = 3, 5
    wanted = function(x)
    ours = torch.compile(function, backend="hpu_backend", dynamic=False)(x.to("hpu"))
    torch.testing.assert_close(ours.cpu(), wanted, rtol=0, atol=0)
