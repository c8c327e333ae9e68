"""A recording: the part of a report beyond what every process keeps anyway.

While a recording is open the device is traced, memory is sampled, Dynamo keeps more metrics, and
the captured form of every graph is kept for its drawing. Only one can be open at a time, and
nothing of this costs anything while none is open.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .. import native
from ..dynamo.records import graph_watch, operators, records
from ..dynamo.records.graph_watch import CapturedGraph
from ..dynamo.records.records import GraphRecord
from ..utils import profiler
from ..utils.profiler.profile import Profile
from . import dynamo_events
from .document import Memory
from .dynamo_events import Mark
from .memory_sampler import MemorySampler

# Graphs after this many are not drawn.
MAX_CAPTURED = 256


@dataclass
class Recording:
    """Complete when its block has ended."""

    mark: Mark = field(default_factory=Mark)
    start: tuple[int, int] = (0, 0)  # records.position()
    operators_before: operators.Counts = field(default_factory=dict)
    duration_ms: float = 0.0
    profile: Profile = field(default_factory=Profile)
    memory: Memory | None = None
    compilations: list[Any] = field(default_factory=list)  # Dynamo's metrics
    # Guarded by _lock.
    captured: list[tuple[GraphRecord, CapturedGraph]] = field(default_factory=list)
    dropped_captures: int = 0

    def keep(self, record: GraphRecord, captured: CapturedGraph) -> None:
        with _lock:
            if len(self.captured) < MAX_CAPTURED:
                self.captured.append((record, captured))
            else:
                self.dropped_captures += 1


_lock = threading.Lock()
_open: Recording | None = None
_last: Recording | None = None


def latest() -> Recording | None:
    """The newest recording that has ended."""
    return _last


@contextlib.contextmanager
def record() -> Iterator[Recording]:
    """Records the block. Raises RuntimeError if a recording is open."""
    global _open, _last
    recording = Recording(
        Mark(dynamo_events.break_count(), time.time()),
        records.position(),
        operators.counts(),
    )
    with _lock:
        if _open is not None:
            raise RuntimeError("a recording is open; there is one at a time")
        _open = recording
    sampler = MemorySampler()
    started = time.perf_counter()
    try:
        with (
            dynamo_events.more_metrics(),
            graph_watch.watched(recording.keep),
            profiler.profile() as recording.profile,
        ):
            sampler.start()
            try:
                yield recording
            finally:
                sampler.stop()
                recording.duration_ms = (time.perf_counter() - started) * 1e3
                recording.compilations = dynamo_events.compilations(recording.mark)
    finally:
        with _lock:
            _open = None
            _last = recording
    limit = int(native.torch_module().memory_stats()["Limit"])
    recording.memory = sampler.result(limit)
