"""From a trace of the device: the best launch of every recipe, and the first run of each graph."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ..utils.profiler.host_rates import HostRates
from ..utils.profiler.profile import Profile
from ..utils.profiler.trace import Kernel, Launch
from .document import KernelRun, RecipeTimeline

MAX_RECIPES = 64
MAX_KERNELS = 2000

# Host intervals have these prefixes; the graph's name follows.
_CALL = "program "
_PREPARE = "hpu::prepare "

Record = dict[str, Any]


def recipe_timelines(profile: Profile, peak: HostRates | None) -> tuple[list[RecipeTimeline], int]:
    """The recipes by total time, longest first, and how many are left out."""
    launches: dict[str, list[Launch]] = defaultdict(list)
    for launch in profile.launches:
        launches[launch.recipe].append(launch)
    kernels: dict[int, list[Kernel]] = defaultdict(list)
    for kernel in profile.kernels:
        if kernel.index >= 0:  # kernels with a negative index pack weights before the first launch
            kernels[kernel.work].append(kernel)
    graph_of = _graphs_of_recipes(profile)
    timelines = []
    for recipe, runs in launches.items():
        best = min(runs, key=lambda launch: launch.duration_ns)
        own = sorted(kernels[best.work], key=lambda kernel: kernel.start_ns)
        timelines.append(_timeline(recipe, graph_of.get(recipe, ""), runs, best, own, peak))
    timelines.sort(key=lambda timeline: -timeline.total_ms)
    return timelines[:MAX_RECIPES], max(0, len(timelines) - MAX_RECIPES)


def first_runs(profile: Profile) -> dict[str, list[float]]:
    """By graph, one value per shape in the order in which shapes were prepared: the milliseconds
    from the first call after that until the device finished the work that the call queued, without
    the wait for work that had been queued before."""
    calls: dict[str, list[Record]] = defaultdict(list)
    prepared: dict[str, list[int]] = defaultdict(list)
    for record in profile.records:
        if (name := _host_interval(record, _CALL)) is not None:
            calls[name].append(record)
        elif (name := _host_interval(record, _PREPARE)) is not None:
            prepared[name].append(record["start_ns"] + record["duration_ns"])
    device = _device_times(profile)
    first: dict[str, list[float]] = defaultdict(list)
    for name, times in prepared.items():
        for ready in sorted(times):
            call = next((c for c in calls[name] if c["start_ns"] >= ready), None)
            if call is not None:
                begin = call["start_ns"]
                free, device_end = device.get((call["tid"], begin), (0, 0))
                end = max(begin + call["duration_ns"], device_end)
                # The call itself may have waited too.
                first[name].append((end - max(begin, min(free, end))) / 1e6)
    return first


def _timeline(
    recipe: str,
    graph: str,
    runs: list[Launch],
    best: Launch,
    kernels: list[Kernel],
    peak: HostRates | None,
) -> RecipeTimeline:
    flops = sum(kernel.flops for kernel in kernels)

    def flops_peak(kernel: Kernel) -> float | None:
        return peak.flops_of(kernel.factors) if peak else None

    # The time that all kernels would take at the peaks of their types, because types may be mixed.
    at_peak = sum(k.flops / (flops_peak(k) or 1) for k in kernels) if peak else 0.0
    bytes_peak = peak.bytes_per_second if peak else None
    return RecipeTimeline(
        recipe,
        graph,
        len(runs),
        sum(launch.duration_ns for launch in runs) / 1e6,
        best.duration_ns / 1e6,
        [
            KernelRun(
                kernel.nodes,
                kernel.engine,
                (kernel.start_ns - best.start_ns) / 1e6,
                kernel.duration_ns / 1e6,
                kernel.bytes,
                kernel.flops,
                _share(kernel.flops, kernel.duration_ns, flops_peak(kernel)),
                _share(kernel.bytes, kernel.duration_ns, bytes_peak),
            )
            for kernel in kernels[:MAX_KERNELS]
        ],
        _share(at_peak, best.duration_ns, 1.0),
        sum(kernel.bytes for kernel in kernels),
        flops,
        max(0, len(kernels) - MAX_KERNELS),
    )


def _share(amount: float, ns: int, per_second: float | None) -> float | None:
    if not per_second or not amount or not ns:
        return None
    return amount / (ns / 1e9) / per_second


def _host_interval(record: Record, kind: str) -> str | None:
    """The graph that an interval of the host is about, if it is of that kind."""
    name = str(record["name"])
    if record["ph"] != "X" or record["cat"] != "host" or not name.startswith(kind):
        return None
    return name.removeprefix(kind)


def _calls_of_launches(profile: Profile) -> Iterator[tuple[Record, Record]]:
    """Pairs of a launch and the program's call that queued it."""
    by_thread: dict[int, list[Record]] = defaultdict(list)
    for record in profile.records:
        if _host_interval(record, _CALL) is not None:
            by_thread[record["tid"]].append(record)
    starts = {thread: [c["start_ns"] for c in calls] for thread, calls in by_thread.items()}
    for record in profile.records:
        if record["ph"] != "X" or record["cat"] != "launch":
            continue
        thread, at = record["args"].get("host_thread"), record["args"].get("queued_ns", 0)
        place = bisect.bisect_right(starts.get(thread, []), at) - 1
        if place >= 0:
            call = by_thread[thread][place]
            if at <= call["start_ns"] + call["duration_ns"]:
                yield record, call


def _graphs_of_recipes(profile: Profile) -> dict[str, str]:
    """The first graph that launched each recipe: recipes of equal content are one."""
    graphs: dict[str, str] = {}
    for launch, call in _calls_of_launches(profile):
        graphs.setdefault(launch["recipe"], call["name"].removeprefix(_CALL))
    return graphs


def _device_times(profile: Profile) -> dict[tuple[int, int], tuple[int, int]]:
    """By a call's thread and start: when earlier launches had ended, and when the call's last
    launch had ended."""
    times: dict[tuple[int, int], tuple[int, int]] = {}
    ended = 0
    for launch, call in sorted(_calls_of_launches(profile), key=lambda pair: pair[0]["start_ns"]):
        end = launch["start_ns"] + launch["duration_ns"]
        key = (call["tid"], call["start_ns"])
        free, last = times.get(key, (ended, 0))
        times[key] = (free, max(last, end))
        ended = max(ended, end)
    return times
