"""mark_step and the actions that run at it.

Lazy mode runs as eager mode, so a step's work is queued before mark_step is called. What remains of
its contract: sync=True waits for the device, the metrics' trigger fires, and with
PT_HPU_LAZY_MODE=1 the step closures run there. Inside a compiled function there are no steps:
mark_step is not in its graph.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from habana_frameworks.torch import hpu
from habana_frameworks.torch.internal import lazy_mode

_log = logging.getLogger("habana_frameworks.torch.core")
_lock = threading.Lock()
_closures: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []  # guarded by _lock


@functools.cache
def _warn_eager() -> None:
    """Warns about eager mode. With PT_HPU_LAZY_MODE=1 it does nothing, because the import has
    warned."""
    if not lazy_mode.asked_for():
        _log.warning(
            "mark_step and step closures belong to lazy mode and do nothing in eager mode and "
            "under torch.compile; they can be removed"
        )


def _run_closures() -> None:
    """Runs the closures in the order in which they were added; closures that they add wait for the
    next step."""
    with _lock:
        ready = _closures.copy()
        _closures.clear()
    for closure, args in ready:
        closure(*args)


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """Ends a step: runs the step closures, and waits for the device with sync=True."""
    if torch.compiler.is_compiling():
        return
    _warn_eager()
    if sync:
        hpu.synchronize()
    hpu.metrics.triggered("mark_step")
    _run_closures()


def iter_mark_step(device_str: str = "") -> None:
    """Runs the step closures."""
    if torch.compiler.is_compiling():
        return
    _warn_eager()
    _run_closures()


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = ()) -> None:
    """Runs `closure(*args)` at the next mark_step. Without PT_HPU_LAZY_MODE=1 it runs at once,
    because in eager mode every step is complete when it returns."""
    _warn_eager()
    if lazy_mode.asked_for():
        with _lock:
            _closures.append((closure, tuple(args)))
    else:
        closure(*args)
