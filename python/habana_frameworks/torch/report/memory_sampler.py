"""Device memory over time: a thread that asks the allocator at intervals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .. import native
from .document import Memory, MemorySample

FIRST_INTERVAL_S = 0.002
# At this many samples, every second one is dropped and the interval doubles.
MAX_SAMPLES = 2048

# Bytes in use, bytes reserved, and the most bytes in use since the process began.
Reading = tuple[int, int, int]


def _read_device() -> Reading:
    module = native.torch_module()
    stats = module.memory_stats()
    return int(stats["InUse"]), int(module.memory_reserved()), int(stats["MaxInUse"])


class MemorySampler:
    """Samples from start() to stop(). It costs nothing but its own reading."""

    def __init__(self, read: Callable[[], Reading] = _read_device) -> None:
        self._read = read
        self._samples: list[MemorySample] = []
        self._interval_s = FIRST_INTERVAL_S
        self._ended = threading.Event()
        self._began = 0.0
        self._peak_before = self._peak_after = 0
        self._thread = threading.Thread(target=self._run, name="hpu-memory-samples", daemon=True)

    def start(self) -> None:
        self._began = time.perf_counter()
        self._peak_before = self._take()
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._peak_after = self._take()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._take()
            if len(self._samples) >= MAX_SAMPLES:
                self._samples = self._samples[::2]
                self._interval_s *= 2

    def _take(self) -> int:
        in_use, reserved, peak = self._read()
        at_ms = (time.perf_counter() - self._began) * 1e3
        self._samples.append(MemorySample(at_ms, in_use, reserved))
        return peak

    def result(self, limit: int) -> Memory:
        """The samples; to be called after stop(). Runs of equal samples are reduced to their first
        and last."""
        kept = [
            sample
            for i, sample in enumerate(self._samples)
            if i in (0, len(self._samples) - 1)
            or _level(self._samples[i - 1]) != _level(sample)
            or _level(self._samples[i + 1]) != _level(sample)
        ]
        peak = max(sample.in_use for sample in kept)
        # The allocator's own peak is exact. It belongs to this recording if it grew meanwhile.
        if self._peak_after > self._peak_before:
            peak = max(peak, self._peak_after)
        return Memory(kept, self._interval_s * 1e3, peak, limit)


def _level(sample: MemorySample) -> tuple[int, int]:
    return sample.in_use, sample.reserved
