"""The rows of a profile's tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelRow:
    """All runs of one kernel of one recipe."""

    nodes: list[str]
    recipe: str
    engine: str
    calls: int
    total_ms: float
    best_ms: float  # for one run
    share: float  # of the time of all kernels
    tasks: int
    bytes: int  # for one run, like operations
    flops: int
    peak_share: float | None  # operations per second of the best run, over the peak of `factors`
    bandwidth_share: float | None  # bytes per second likewise; caches can lift it over 1
    factors: str  # the type whose peak it is: f32 or bf16
    busy_share: float  # the share of the threads' time, while it ran, in which they ran its tasks
    # from the end of the kernel before it in its launch, or from the launch's begin, to its own
    # begin
    wait_ms: float


@dataclass(frozen=True)
class EngineRow:
    engine: str
    kernels: int  # number of runs
    total_ms: float
    share: float
    flops: int  # for all runs, like bytes
    bytes: int
    peak_share: float | None
    bandwidth_share: float | None


@dataclass(frozen=True)
class RecipeRow:
    recipe: str
    launches: int
    total_ms: float
    best_ms: float
    kernels_ms: float  # for all launches; the rest of total_ms is between kernels
    threads: int
    # The threads' time in the launches has three parts, whose sum is 1.
    busy_share: float  # the threads ran tasks
    uneven_share: float  # a kernel ran, but had no task for them
    between_share: float  # no kernel ran
    cpu_per_wall: float  # CPU seconds of the process per second of the launches


@dataclass(frozen=True)
class RooflineRow:
    """Kernels of a recipe whose least time on this host follows from the same rate."""

    recipe: str
    bound: str  # "arithmetic" or "memory"
    kernels: int  # for one launch
    best_ms: float  # sum of the kernels' best runs
    share: float  # of that sum over all kernels of the recipe
    flops: int  # for one launch, like bytes
    bytes: int
    intensity: float  # operations per byte
    least_ms: float  # at the peak of their types, or at the bandwidth
    least_share: float  # least_ms / best_ms; caches can lift it over 1
