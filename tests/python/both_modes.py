"""Tests that run in eager and in lazy mode."""

from __future__ import annotations

import pytest
import torch

from habana_frameworks.torch import native

_torch = native.torch_module()


@pytest.fixture(autouse=True, params=["eager", "lazy"])
def mode(request):
    """A file that imports this fixture has each test once in each mode."""
    if request.param == "lazy":
        _torch.start_lazy_mode(10_000)
    yield request.param
    if request.param == "lazy":
        _torch.queue_recorded()
        _torch.stop_recording()
    assert not torch.hpu.is_current_stream_capturing()


def matrix(*sizes: int) -> torch.Tensor:
    return torch.linspace(-2, 2, torch.Size(sizes).numel()).reshape(sizes)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach())
