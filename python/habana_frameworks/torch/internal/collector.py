"""Python's garbage collector during work that makes many objects."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Turns the garbage collector off in the block, which makes thousands of objects that stay. A
    full collection in between reads every object of PyTorch, and costs more than a start and a
    third of a capture. A thread whose block ends turns it on for all threads."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
