"""Simulates the emulated device's executor: from measured task times to the time on n cores.

A launch runs its kernels one after the other, each over all compute threads (emulator/threads/
thread_pool.cc). Its pieces of `grain` tasks are joined into at most eight chunks per thread, whose
sizes shrink; a thread takes the chunks of its own range first, then those of the others. A kernel
ends when its last chunk has ended.

The simulation leaves two effects out: threads share caches and memory bandwidth (a task takes as
long as it did alone), and their clock falls when many of them compute.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from dataclasses import dataclass

CHUNK_BORDERS = (0, 8, 16, 20, 24, 26, 28, 30, 32)  # kChunkBorders of thread_pool.cc
CHUNKS_PER_THREAD = len(CHUNK_BORDERS) - 1
# The cost to a kernel of waking the threads and waiting for the last one: for the first, and per
# thread.
BARRIER_NS = 1000.0
BARRIER_NS_PER_THREAD = 20.0


@dataclass(frozen=True)
class KernelTasks:
    """One kernel of a recipe. `pieces`: the time of each piece, or of each group of that many
    pieces."""

    name: str
    engine: str
    tasks: int
    grain: int
    pieces: list[int]

    @property
    def grains(self) -> int:
        """The number of pieces that threads can take."""
        return 1 if len(self.pieces) == 1 else -(-self.tasks // self.grain)

    @property
    def total_ns(self) -> float:
        return float(sum(self.pieces))


def chunk_begins(pieces: int, chunks: int) -> list[int]:
    """The positions in pieces at which chunks begin, and at which the last one ends."""
    if pieces <= chunks:
        return [pieces * c // chunks for c in range(chunks + 1)]
    threads = chunks // CHUNKS_PER_THREAD
    shares = [(pieces * t // threads, pieces * (t + 1) // threads) for t in range(threads)]
    return [
        begin + (end - begin) * border // CHUNK_BORDERS[-1]
        for begin, end in shares
        for border in CHUNK_BORDERS[:-1]
    ] + [pieces]


def chunk_times(kernel: KernelTasks, threads: int) -> list[float]:
    """The times of the chunks that this many threads share."""
    grains, groups = kernel.grains, len(kernel.pieces)
    chunks = min(grains, threads * CHUNKS_PER_THREAD)
    ends = [grains * (i + 1) // groups for i in range(groups)]
    sums = [0, *itertools.accumulate(kernel.pieces)]

    def until(grain: int) -> float:
        i = bisect.bisect_left(ends, grain)
        begin = ends[i - 1] if i else 0
        return sums[i] + kernel.pieces[i] * (grain - begin) / (ends[i] - begin) if grain else 0.0

    borders = [until(begin) for begin in chunk_begins(grains, chunks)]
    return [end - begin for begin, end in itertools.pairwise(borders)]


def kernel_ns(kernel: KernelTasks, threads: int) -> float:
    """The time from the kernel's start to the end of its last chunk, including waking and
    waiting."""
    if threads == 1 or kernel.grains == 1:
        return kernel.total_ns
    times = chunk_times(kernel, threads)
    shares = [
        list(range(len(times) * i // threads, len(times) * (i + 1) // threads))[::-1]
        for i in range(threads)
    ]
    free = [(0.0, i) for i in range(threads)]
    end = 0.0
    while free:
        now, thread = heapq.heappop(free)
        share = next((s for s in (*shares[thread:], *shares[:thread]) if s), None)
        if share is None:
            continue
        now += times[share.pop()]
        end = max(end, now)
        heapq.heappush(free, (now, thread))
    return end + BARRIER_NS + BARRIER_NS_PER_THREAD * threads


@dataclass(frozen=True)
class Scaled:
    """A launch on a number of cores."""

    threads: int
    ns: float
    efficiency: float
    lost: list[float]  # by kernel: thread time beyond its time on one core, as a share of the total


def scale(kernels: list[KernelTasks], between_ns: float, threads: int) -> Scaled:
    """`between_ns`: the time of a launch in which no kernel runs, on any number of threads."""
    times = [kernel_ns(kernel, threads) for kernel in kernels]
    whole = sum(times) + between_ns
    alone = sum(kernel.total_ns for kernel in kernels) + between_ns
    lost = [
        (time * threads - kernel.total_ns) / (whole * threads)
        for time, kernel in zip(times, kernels, strict=True)
    ]
    return Scaled(threads, whole, alone / (whole * threads), lost)
