"""torch.use_deterministic_algorithms chooses the program of a call, also of one that has a program
already."""

from __future__ import annotations

import pytest
import torch
from eager_case import place_on_cpu
from lazy_case import lazy_mode

_WAYS = {"recipes": lambda: place_on_cpu("none"), "lazy": lazy_mode}


@pytest.fixture(autouse=True)
def _as_it_was():
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("way", list(_WAYS))
def test_the_mode_may_change_between_equal_calls(way):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 128, 28, 28, generator=generator).to("hpu")
    weight = torch.randn(128, 128, 3, 3, generator=generator).to("hpu")
    results = []
    with _WAYS[way]():
        for deterministic in (False, True, False, True):
            torch.use_deterministic_algorithms(deterministic)
            results.append(torch.conv2d(x, weight, padding=1).cpu())
    torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-3)
    # The direct form rounds in another way than the fast one.
    assert not torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[1], results[3])
