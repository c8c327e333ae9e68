"""Positions and integers beyond 32 bits. The device counts in 32 bits, so PyTorch's kernels run
such calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers import check
from processes import output_of

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


PROGRAM = """
import torch
import habana_frameworks.torch
x = torch.zeros({size}, dtype=torch.int8, device="hpu")
x[0], x[-1] = 3, 5
print(torch.compile(lambda x: {text}, backend="hpu_backend", dynamic=False)(x).cpu().tolist())
"""


# A process for each: two gigabytes per tensor are given back at its end.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x.argmax()", BEYOND - 1),
        ("x.max(0).indices", BEYOND - 1),
        ("x.flip(0)[:4]", [5, 0, 0, 0]),
        ("(x + 1)[-3:]", [1, 1, 6]),
        ("x.view(-1, 8).amax(1)[-3:]", [0, 0, 5]),
        ("x.sum()", 8),
        (f"x[torch.tensor([0, {BEYOND - 1}, 5], device=x.device)]", [3, 5, 0]),
        ("x.view(8, -1).t().contiguous()[-1]", [0, 0, 0, 0, 0, 0, 0, 5]),
    ],
)
def test_more_than_2_31_elements(text: str, wanted: object) -> None:
    told = output_of(PROGRAM.format(size=BEYOND, text=text)).stdout
    assert told.strip() == str(wanted)
