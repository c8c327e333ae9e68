"""mark_step and the actions that run at it.

In lazy mode it queues what has been recorded, and step closures run there. In eager mode a step's
work is queued before mark_step is called; sync=True waits for the device, and the metrics' trigger
fires. Inside a compiled function there are no steps: mark_step is not in its graph.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from habana_frameworks.torch import hpu, native
from habana_frameworks.torch.internal import lazy_mode

_log = logging.getLogger("habana_frameworks.torch.core")
_lock = threading.Lock()
_closures: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []  # guarded by _lock


@functools.cache
def _warn_eager() -> None:
    if not lazy_mode.is_on():
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
    """Ends a step: queues what lazy mode has recorded, waits for the device with sync=True, and
    runs the step closures. `device_str` may name the one device of the process."""
    if torch.compiler.is_compiling():
        return
    _warn_eager()
    native.torch_module().queue_recorded()
    if sync:
        hpu.synchronize()
    hpu.metrics.triggered("mark_step")
    _run_closures()


def _mark_step_if_lazy(device_str: str = "") -> None:
    """mark_step in lazy mode; does nothing in eager mode and under torch.compile."""
    if lazy_mode.is_on():
        mark_step(device_str)


def iter_mark_step(device_str: str = "") -> None:
    """Queues what lazy mode has recorded, and runs the step closures."""
    if torch.compiler.is_compiling():
        return
    _warn_eager()
    native.torch_module().queue_recorded()
    _run_closures()


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = ()) -> None:
    """Runs `closure(*args)` at the next mark_step. Without PT_HPU_LAZY_MODE=1 it runs at once,
    because in eager mode every step is complete when it returns."""
    _warn_eager()
    if lazy_mode.is_on():
        with _lock:
            _closures.append((closure, tuple(args)))
    else:
        closure(*args)
