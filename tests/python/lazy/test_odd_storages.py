"""Views of another type of storages that are no whole number of its elements, in lazy mode."""

from __future__ import annotations

import torch
from lazy_case import Counts, lazy_mode


def read(device: str) -> list[torch.Tensor]:
    given = torch.arange(5, dtype=torch.uint8, device=device)
    made = torch.arange(7, dtype=torch.uint8, device=device) + 1
    results = [
        given[:4].view(torch.float32) + 1,
        given[2:4].view(torch.int16) + 1,
        made[:4].view(torch.int32) * 2,
        made * 3,
    ]
    return [result.cpu() for result in results]


def written(device: str) -> list[torch.Tensor]:
    x = torch.zeros(7, dtype=torch.uint8, device=device)
    x[4:6].view(torch.int16).add_(300)
    x[:4].view(torch.int32).fill_(70000)
    return [(x + 0).cpu(), x.cpu()]


def test_they_are_one_recording() -> None:
    for function in (read, written):
        counts = Counts()
        with lazy_mode():
            got = function("hpu")
        assert counts.runs_by_call == 0
        for ours, theirs in zip(got, function("cpu"), strict=True):
            assert torch.equal(ours, theirs)
