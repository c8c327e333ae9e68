"""Calls on parts of a storage have one program wherever in the storage the parts begin."""

from __future__ import annotations

import random

import pytest
import torch
from lazy_case import Counts, lazy_mode, mark_step


@pytest.fixture(autouse=True)
def _lazy():
    with lazy_mode():
        yield


def _read(x: torch.Tensor, i: int) -> torch.Tensor:
    return x[4 * i : 4 * i + 4] * 2 + 1


def _written(x: torch.Tensor, i: int) -> torch.Tensor:
    x[4 * i : 4 * i + 4].mul_(3)
    return x[4 * i] + 1


def _neighbours(x: torch.Tensor, i: int) -> torch.Tensor:
    """The later part comes first."""
    x[4 * i + 1, 2:4].add_(x[4 * i, :2])
    return x[4 * i + 1 : 4 * i + 3] - x[4 * i]


def _overlapping_columns(x: torch.Tensor, i: int) -> torch.Tensor:
    return x[4 * i : 4 * i + 4, 0:2] + x[4 * i : 4 * i + 4, 1:3]


def _other_types(x: torch.Tensor, i: int) -> torch.Tensor:
    bits = x[4 * i + 1].view(torch.int16)
    bits[1:3].add_(1)
    return x[4 * i : 4 * i + 4] + bits[::2]


_STEPS = [_read, _written, _neighbours, _overlapping_columns, _other_types]


def _host(rows: int) -> torch.Tensor:
    return torch.arange(6.0 * rows).reshape(rows, 6) / 7


@pytest.mark.parametrize("step", _STEPS)
def test_parts_that_begin_elsewhere(step) -> None:
    """Where the program takes all of a storage, because parts overlap, it fits in some places."""
    counts = Counts()
    for rows in (32, 20):
        host, x = _host(rows), _host(rows).to("hpu")
        mark_step()
        for i in (1, 2, 4, 0, 3):
            got = step(x, i)
            mark_step()
            torch.testing.assert_close(got.cpu(), step(host, i))
            torch.testing.assert_close(x.cpu(), host)
    assert counts.runs_by_call == 0
    if step in (_read, _written, _neighbours):
        assert counts.compilations <= 2, "one of the step, and one that reads x"


def test_a_loop_over_the_elements_of_a_tensor() -> None:
    """Schedulers of diffusers give a model each element of a tensor of times."""
    times, x = torch.arange(8.0, device="hpu"), torch.ones(3, device="hpu")
    mark_step()
    counts = Counts()
    for number, time in enumerate(times):
        y = (x * time).sin()
        mark_step()
        torch.testing.assert_close(y.cpu(), torch.full((3,), float(number)).sin())
    assert counts.compilations == 1 and counts.runs_by_call == 0


@pytest.mark.parametrize("seed", range(4))
def test_random_parts(seed: int) -> None:
    """Each program of calls on random parts runs in six places of storages of three sizes."""
    rng = random.Random(seed)
    for _ in range(4):
        parts = [(rng.randrange(5), rng.randrange(1, 4), rng.randrange(4)) for _ in range(4)]
        writes = [rng.random() < 0.4 for _ in parts]
        for rows in rng.sample([12, 19, 40], 3):
            host, x = _host(rows), _host(rows).to("hpu")
            mark_step()
            for start in (0, rng.randrange(rows - 8)):
                sums = []
                for memory in (x, host):
                    total = torch.zeros(2, device=memory.device)
                    for (row, count, column), write in zip(parts, writes, strict=True):
                        part = memory[start + row : start + row + count, column : column + 2]
                        if write:
                            part.mul_(1.5).sub_(total)
                        total = total + part.sum(0)
                    mark_step()
                    sums.append(total.cpu())
                torch.testing.assert_close(*sums)
                torch.testing.assert_close(x.cpu(), host)
