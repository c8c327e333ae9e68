"""Numbers for which the CPU raises an error raise the same one in each way, although no recipe
checks them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
import torch
from eager_case import place_on_cpu
from lazy_case import lazy_mode

WRONG: dict[str, Callable[[str], torch.Tensor]] = {
    "uniform_": lambda d: torch.zeros(4, device=d).uniform_(2, 1),
    "uniform_ of nan": lambda d: torch.zeros(4, device=d).uniform_(float("nan"), 1),
    "uniform_ without an end": lambda d: torch.zeros(4, device=d).uniform_(0, float("inf")),
    "uniform_ of f16": lambda d: torch.zeros(4, device=d).half().uniform_(0, 1e6),
    "uniform_ too wide": lambda d: torch.zeros(4, device=d).uniform_(-3e38, 3e38),
    "bernoulli_": lambda d: torch.zeros(4, device=d).bernoulli_(5),
    "bernoulli_ of nan": lambda d: torch.zeros(4, device=d).bernoulli_(float("nan")),
    "bernoulli": lambda d: torch.bernoulli(torch.zeros(4, device=d), -1.0),
    "native_dropout": lambda d: torch.native_dropout(torch.zeros(4, device=d), 2.0, True)[0],
    "normal_": lambda d: torch.zeros(4, device=d).normal_(0, -1),
    "exponential_": lambda d: torch.zeros(4, device=d).exponential_(-1),
    "geometric_": lambda d: torch.zeros(4, device=d).geometric_(2),
}
MODES = {
    "direct": lambda: nullcontext(),
    "recipes": lambda: place_on_cpu("none"),
    "lazy": lambda: lazy_mode(),
}


@pytest.fixture(params=MODES)
def mode(request) -> Iterator[str]:
    with MODES[request.param]():
        yield request.param


@pytest.mark.parametrize("name", WRONG)
def test_the_error_is_the_cpus(name: str, mode: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        WRONG[name]("cpu")
    told = re.sub(r"(-?\d+)\.0\b", r"\1", str(expected.value)).partition("\n")[0]
    with pytest.raises(RuntimeError) as raised:
        WRONG[name]("hpu").cpu()
    assert re.sub(r"(-?\d+)\.0\b", r"\1", str(raised.value)).startswith(told)


def test_right_numbers_draw(mode: str) -> None:
    x = torch.zeros(64, device="hpu")
    assert 1 <= x.uniform_(1, 2).min().item() <= x.max().item() <= 2
    assert x.uniform_(3, 3).eq(3).all().item()
    assert x.bernoulli_(1).eq(1).all().item()
    assert x.bernoulli_(0).eq(0).all().item()
    kept, _ = torch.native_dropout(torch.ones(8, device="hpu"), 2.0, False)
    assert kept.eq(1).all().item()
