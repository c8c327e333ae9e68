"""Runs operators of torch.ops.hpu in the ways that they are called: eagerly, where each call is a
recipe, in lazy mode, in a compiled graph, and by their kernels on the CPU, which run when the
compile server does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from eager_case import place_on_cpu, ways
from helpers import fresh_process
from lazy_case import Counts, lazy_mode
from training_case import only_graph

from habana_frameworks.torch import native

_torch = native.torch_module()

WAYS = ("eager", "lazy", "compiled", "cpu")
by_way = pytest.mark.parametrize("way", WAYS)


def on_device(value: Any, device: str = "hpu") -> Any:
    """Copies of the tensors of a nested value on a device."""
    if isinstance(value, torch.Tensor):
        placed = value.detach().to(device, copy=True)
        return placed.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(on_device(item, device) for item in value)
    return value


@contextmanager
def _as_recipe(name: str) -> Iterator[None]:
    """Operator `name` runs in the block, and only as recipes."""
    _torch.reset_op_counts()
    with place_on_cpu("none"):
        yield
    recipes, direct, fallbacks = ways(f"hpu::{name}")
    assert recipes > 0
    assert (direct, fallbacks) == (0, 0)


def run(way: str, name: str, function: Callable[..., Any], *inputs: Any) -> Any:
    """The results of a function that calls torch.ops.hpu.<name>, on hpu."""
    if way == "cpu":
        return on_device(function(*on_device(inputs, "cpu")))
    given = on_device(inputs)
    if way == "eager":
        with _as_recipe(name):
            return function(*given)
    if way == "lazy":
        counts = Counts()
        with lazy_mode(), place_on_cpu("none"):
            result = function(*given)
        assert counts.runs > 0
        return result
    fresh_process()
    result = torch.compile(function, backend="hpu_backend")(*given)
    assert all(op.startswith("hpu.") for op in only_graph().decomposed), only_graph().decomposed
    return result


def assert_near(
    ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], rtol: float, atol: float
) -> None:
    assert len(ours) == len(theirs)
    for own, other in zip(ours, theirs, strict=True):
        assert own.device.type == "hpu"
        torch.testing.assert_close(own.detach().cpu(), other.detach(), rtol=rtol, atol=atol)
