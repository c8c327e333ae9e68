"""Bridge interfaces (usual alias htcore). Importing it joins a script to the device."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from habana_frameworks.torch import hpu

_log = logging.getLogger("habana_frameworks.torch.core")


@functools.cache
def _warn_eager() -> None:
    _log.warning(
        "mark_step and step closures belong to lazy mode and do nothing in eager mode and under "
        "torch.compile; they can be removed"
    )


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """Ends a lazy graph. In eager mode there is none: nothing to do, except with sync=True."""
    _warn_eager()
    if sync:
        hpu.synchronize()
    hpu.metrics.triggered("mark_step")


def iter_mark_step(device_str: str = "") -> None:
    """As mark_step."""
    _warn_eager()


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = ()) -> None:
    """Runs `closure(*args)` at once: in eager mode every step is complete when it returns."""
    _warn_eager()
    closure(*args)
