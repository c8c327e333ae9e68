"""Arithmetic of the comparison: plain functions over plain numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

Run = dict[str, Any]  # the figures of one process, or {"failure": text}
Results = dict[str, dict[str, list[Run]]]  # case -> contender -> runs

INDUCTOR_VARIANTS = ("inductor", "inductor freezing", "inductor max-autotune")
RUNTIMES = ("openvino", "openvino importer", "onnxruntime")
# In steady state these contenders run the same code as plain Inductor; only their start differs.
_SAME_CODE = {"inductor warm": "inductor", "inductor mega-cache": "inductor"}


def values(runs: Iterable[Run], name: str) -> list[float]:
    return [run[name] for run in runs if isinstance(run.get(name), (int, float))]


def median(runs: Iterable[Run], name: str) -> float | None:
    found = values(runs, name)
    return statistics.median(found) if found else None


def least(runs: Iterable[Run], name: str) -> float | None:
    return min(values(runs, name), default=None)


def most(runs: Iterable[Run], name: str) -> float | None:
    return max(values(runs, name), default=None)


def quotient(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def geometric_mean(found: Sequence[float]) -> float | None:
    return statistics.geometric_mean(found) if found else None


def memory_ratios(results: Results) -> dict[str, float]:
    """The peak memory of our training step over that of Inductor."""
    found = {}
    for case, by in results.items():
        ours = median(steady_runs(by, "hpu"), "peak_memory_bytes")
        ratio = quotient(ours, median(steady_runs(by, "inductor"), "peak_memory_bytes"))
        if ratio is not None:
            found[case] = ratio
    return found


def growth_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float | None:
    """The exponent b in cost = a * size ** b from the first to the last point: 1 is linear, 0 is
    constant."""
    if len(sizes) < 2 or min(*sizes, *costs) <= 0 or sizes[0] == sizes[-1]:
        return None
    return math.log(costs[-1] / costs[0]) / math.log(sizes[-1] / sizes[0])


def joined_results(earlier: Results, later: Results, cases: Sequence[str]) -> Results:
    """The runs of both. Rows are in the order of `cases`; other rows stay in front."""
    rows = {row: dict(by) for row, by in earlier.items()}
    for row, by in later.items():
        for contender, runs in by.items():
            mine = rows.setdefault(row, {})
            mine[contender] = [*mine.get(contender, []), *runs]
    places = {case: place for place, case in enumerate(cases)}
    order = sorted(rows, key=lambda row: places.get(row.rpartition(" ")[0], -1))
    return {row: rows[row] for row in order}


def joined_about(earlier: dict[str, Any], later: dict[str, Any], joined: Results) -> dict[str, Any]:
    """The description of two runs on one machine together, whose results are `joined`."""
    first, last = earlier["date"].split(" to ")[0], later["date"]
    return later | {
        "date": first if first == last else f"{first} to {last}",
        "commit": ", ".join(dict.fromkeys([*earlier["commit"].split(", "), later["commit"]])),
        "load": max(earlier["load"], later["load"]),
        "minutes": earlier["minutes"] + later["minutes"],
        "rounds": max(len(runs) for by in joined.values() for runs in by.values()),
        "runs": earlier.get("runs", 1) + 1,
    }


def steady_runs(figures: dict[str, list[Run]], contender: str) -> list[Run]:
    """Runs whose steady state is the contender's; "hpu" means cold and warm together."""
    if contender == "hpu":
        return [*figures.get("hpu cold", []), *figures.get("hpu warm", [])]
    return [
        run for name, runs in figures.items() if _SAME_CODE.get(name, name) == contender
        for run in runs
    ]  # fmt: skip


def best_inductor(figures: dict[str, list[Run]]) -> tuple[str, float] | None:
    """The Inductor variant with the lowest median, and that median in milliseconds."""
    medians = {
        name: value
        for name in INDUCTOR_VARIANTS
        if (value := median(steady_runs(figures, name), "steady_ms")) is not None
    }
    if not medians:
        return None
    best = min(medians, key=medians.__getitem__)
    return best, medians[best]


def best_peer(results: Results, case: str) -> tuple[str, float] | None:
    """The fastest of all contenders that are not ours, and its median in milliseconds. For a bf16
    row a runtime may calculate in f32. None where one of them has not been run, even if only to
    fail."""
    found = [best for best in (best_inductor(results[case]),) if best]
    name, _, dtype = case.rpartition(" ")
    rows = [results[case], results.get(f"{name} f32", {})] if dtype == "bf16" else [results[case]]
    if not found or not all(any(by.get(contender) for by in rows) for contender in RUNTIMES):
        return None
    for contender in RUNTIMES:
        medians = [median(by.get(contender, []), "steady_ms") for by in rows]
        found += [(contender, value) for value in medians if value is not None]
    return min(found, key=lambda best: best[1], default=None)


def leads_over_peers(results: Results) -> dict[str, float]:
    """Case -> the fastest peer's time divided by ours."""
    found = {}
    for case, figures in results.items():
        best = best_peer(results, case)
        lead = quotient(best and best[1], median(steady_runs(figures, "hpu"), "steady_ms"))
        if lead is not None:
            found[case] = lead
    return found


def leads(results: Results) -> dict[str, float]:
    """Case -> the best Inductor variant's time divided by ours."""
    found = {}
    for case, figures in results.items():
        best = best_inductor(figures)
        lead = quotient(best and best[1], median(steady_runs(figures, "hpu"), "steady_ms"))
        if lead is not None:
            found[case] = lead
    return found


def steady_ratios(results: Results, contender: str) -> dict[str, float]:
    """Case -> the contender's time divided by ours."""
    found = {}
    for case, figures in results.items():
        theirs = median(steady_runs(figures, contender), "steady_ms")
        ratio = quotient(theirs, median(steady_runs(figures, "hpu"), "steady_ms"))
        if ratio is not None:
            found[case] = ratio
    return found


def first_ratios(results: Results, above: str, below: str) -> dict[str, float]:
    """Case -> the time to the first output of one contender over that of another."""
    found = {}
    for case, figures in results.items():
        ratio = quotient(
            median(figures.get(above, []), "first_ms"), median(figures.get(below, []), "first_ms")
        )
        if ratio is not None:
            found[case] = ratio
    return found


def peak_live_bytes(events: Iterable[tuple[int, int]], kept: bool = False) -> int:
    """The most bytes alive at a time in blocks that are freed before the end (outputs are not), or,
    with `kept`, in all blocks.

    events: (address, bytes), negative bytes for a free, in order of time. Frees of blocks that
    were allocated before the first event are not counted.
    """
    blocks: list[list[int]] = []  # bytes, begin, end; end -1 = alive
    at: dict[int, int] = {}
    now = 0
    for now, (address, size) in enumerate(events):
        if size > 0:
            at[address] = len(blocks)
            blocks.append([size, now, -1])
        elif address in at:
            blocks[at.pop(address)][2] = now
    changes = [0] * (now + 2)
    for size, begin, end in blocks:
        if end >= 0 or kept:
            changes[begin] += size
        if end >= 0:
            changes[end] -= size
    live = highest = 0
    for change in changes:
        live += change
        highest = max(highest, live)
    return highest


class Remaining:
    """The time left of a plan: the expected seconds of the remaining steps, scaled by how the past
    steps went."""

    def __init__(self, expected: Sequence[float]) -> None:
        self._expected = list(expected)
        self._done = 0
        self.elapsed = 0.0

    def step_took(self, seconds: float) -> None:
        self._done += 1
        self.elapsed += seconds

    def seconds(self) -> float:
        past = sum(self._expected[: self._done])
        pace = self.elapsed / past if past else 1.0
        return pace * sum(self._expected[self._done :])
