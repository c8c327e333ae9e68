"""Helpers for the programs of the modules beside this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
Case = Callable[[Compile], list[torch.Tensor]]

CASES: dict[str, Case] = {}
# Libraries live as long as the process.
_made: list[Library] = []


def keep(made: Library) -> Library:
    _made.append(made)
    return made


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def library(name: str, schema: str = "op(Tensor x) -> Tensor") -> Library:
    made = Library(f"registrations_{name}", "DEF")
    made.define(schema)
    return keep(made)


def values(*sizes: int) -> torch.Tensor:
    count = torch.Size(sizes).numel()
    return (torch.arange(count, dtype=torch.float32).reshape(sizes) / 8 - 1).to("hpu")


def forward(compiled: Compile, function: Callable[..., Any], x: Any = None) -> list[torch.Tensor]:
    with torch.no_grad():
        return [compiled(function)(values(3, 4) if x is None else x)]


def with_gradient(compiled: Compile, function: Callable[..., Any]) -> list[torch.Tensor]:
    x = values(3, 4).requires_grad_()
    y = compiled(function)(x)
    y.square().sum().backward()
    return [y, x.grad]
