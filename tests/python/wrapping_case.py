"""Modules whose calls are captured, beside ones on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from both_modes import matrix
from torch import nn

import habana_frameworks.torch as ht
from habana_frameworks.torch.internal import notices


@pytest.fixture(autouse=True)
def told(monkeypatch, caplog):
    """A function that returns what the package has warned of in the test."""
    monkeypatch.setattr(notices, "_said", set())
    return lambda: [r.message for r in caplog.records if r.name == "habana_frameworks.torch"]


class Counted(nn.Module):
    """Counts the calls of its Python."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function
        self.calls = 0

    def forward(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def wrapped(function, **options):
    """A module of the function, and what calls it and says how often Python ran."""
    module = ht.hpu.wrap_in_hpu_graph(Counted(function).eval(), **options)
    return module, module.forward.graphs


def layers() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 3))
    return model, copy.deepcopy(model).to("hpu")


def on_hpu(*sizes: int, grad: bool = False) -> torch.Tensor:
    return matrix(*sizes).to("hpu").requires_grad_(grad)
