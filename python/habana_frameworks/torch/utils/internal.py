"""Which mode runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def is_lazy() -> bool:
    """False: on stock PyTorch there are eager mode and torch.compile only."""
    return False


def lazy_only(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Marks a function of lazy mode; a call raises RuntimeError."""

    def refuse(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        raise RuntimeError(f"{function.__name__} exists in lazy mode only, and that needs the fork")

    return refuse
