"""The mode in which the package runs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from ..internal import lazy_mode
from ..internal.notices import without_effect


def is_lazy() -> bool:
    """Whether PT_HPU_LAZY_MODE=1 was set at the import."""
    return lazy_mode.is_on()


def lazy_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function of lazy mode. In eager mode a call does nothing, and the first call logs
    that."""
    if lazy_mode.is_on():
        return function

    @functools.wraps(function)
    def do_nothing(*args: Any, **kwargs: Any) -> None:
        without_effect(f"{function.__name__}()", "it exists in lazy mode only")

    return do_nothing


class Timer:
    """Used as `with Timer() as timer: ...`; timer.elapsed is the block's time in seconds."""

    def __init__(self) -> None:
        self.start_t = 0.0
        self.end_t = 0.0

    def __enter__(self) -> Timer:
        self.start_t = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.end_t = time.perf_counter()

    @property
    def elapsed(self) -> float:
        return self.end_t - self.start_t
