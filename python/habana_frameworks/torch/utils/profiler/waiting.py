"""How the threads' time in launches is divided: running tasks, short of tasks, between kernels."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from .trace import Trace


@dataclass
class RecipeTimes:
    """The times of all launches of a recipe."""

    kernels_ns: int = 0  # wall time
    busy_ns: int = 0  # summed over all threads

    def shares(self, launches_ns: int, threads: int) -> tuple[float, float, float]:
        """Returns (busy, uneven, between) as shares of the threads' time in launches of that total
        length."""
        whole = (launches_ns or 1) * threads
        in_kernels = self.kernels_ns * threads
        return (
            self.busy_ns / whole,
            (in_kernels - self.busy_ns) / whole,
            (launches_ns * threads - in_kernels) / whole,
        )


@dataclass
class Waiting:
    threads: int = 1
    recipes: dict[str, RecipeTimes] = field(default_factory=lambda: defaultdict(RecipeTimes))
    # Maps recipe and kernel position to the idle time before that kernel, summed over launches.
    before_kernel_ns: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))


def waiting(profile: Trace) -> Waiting:
    result = Waiting()
    began = {}
    for launch in profile.launches:
        began[launch.recipe, launch.work] = launch.start_ns
        result.threads = max(result.threads, launch.threads)
    ended: dict[tuple[str, int], int] = {}
    for kernel in profile.kernels:
        times = result.recipes[kernel.recipe]
        times.kernels_ns += kernel.duration_ns
        times.busy_ns += kernel.busy_ns
        launch_key = (kernel.recipe, kernel.work)
        before = ended.get(launch_key, began.get(launch_key))
        if kernel.index >= 0 and before is not None:
            result.before_kernel_ns[kernel.recipe, kernel.index] += kernel.start_ns - before
        ended[launch_key] = kernel.start_ns + kernel.duration_ns
    return result
