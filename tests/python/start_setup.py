"""The parts of a program of the tests of starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch


@dataclasses.dataclass
class Setup:
    """The callable that a process compiles, and how it is called."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    compile_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    train: bool = False  # compare gradients of parameters as well


def on_device(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to("hpu")
