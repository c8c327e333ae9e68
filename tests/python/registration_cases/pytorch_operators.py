"""Kernels that somebody registers for PyTorch's own operators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from .programs import CASES, forward, with_gradient


def overridden(
    name: str, key: str, kernel: Callable[..., Any]
) -> contextlib.AbstractContextManager:
    @contextlib.contextmanager
    def around():
        with torch.library._scoped_library("aten", "IMPL") as scoped:
            scoped.impl(name, kernel, key)
            yield

    return around()


def own(name: str, key: str, kernel: Any, function: Any, gradient: bool = False) -> None:
    def run(compiled):
        with overridden(name, key, kernel):
            return (with_gradient if gradient else forward)(compiled, function)

    CASES[f"aten {name} for {key}"] = run


own("digamma", "AutogradHPU", lambda x: x * 41.0, lambda x: torch.digamma(x) + 1.0, True)
own("sinc", "Autograd", lambda x: x * 41.0, lambda x: torch.sinc(x) + 1.0)
own("i0", "HPU", lambda x: x * 41.0, lambda x: torch.i0(x) + 1.0)
own("expm1", "HPU", lambda x: x * 41.0, lambda x: torch.expm1(x) + 1.0)
own("log1p", "CPU", lambda x: x * 41.0, lambda x: torch.log1p(x) + 1.0)
own("square", "CompositeImplicitAutograd", lambda x: x * 41.0, lambda x: torch.square(x) + 1.0)
