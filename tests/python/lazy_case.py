"""Lazy mode inside one process of tests, and what its recorder has done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from habana_frameworks.torch import native
from habana_frameworks.torch.hpu.storages import give_memory_to_what_python_touches

_torch = native.torch_module()
give_memory_to_what_python_touches()


@contextmanager
def lazy_mode(most_calls: int = 10_000) -> Iterator[None]:
    """Operators on hpu are recorded in the block."""
    _torch.start_lazy_mode(most_calls)
    try:
        yield
    finally:
        try:
            _torch.queue_recorded()
        finally:
            _torch.stop_recording()


class Counts:
    """How often recordings have run since this object was made, and what became of them."""

    def __init__(self) -> None:
        self._start = _torch.recorder_counts()

    def __getattr__(self, name: str) -> int:
        """runs, calls, compilations or runs_by_call."""
        return int(_torch.recorder_counts()[name]) - int(self._start[name])


def recorded() -> int:
    """How many calls are recorded and have not run."""
    return int(_torch.recorder_counts()["recorded"])


def mark_step() -> None:
    _torch.queue_recorded()
