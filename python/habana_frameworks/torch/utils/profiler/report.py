"""Tables of a profile: where the time went, and how near that is to what the host can reach."""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

from . import tables
from .host_rates import HostRates
from .rows import EngineRow, KernelRow, RecipeRow, RooflineRow
from .trace import Kernel, Launch, Trace
from .waiting import Waiting, waiting


def _per_second(amount: float, ns: int, rate: float) -> float | None:
    """The share of the rate that amount / ns reaches; None if it is not known."""
    return amount / (ns / 1e9) / rate if amount and ns else None


@dataclass(frozen=True)
class Report:
    """Tables whose rows are sorted by time, the largest first."""

    kernels: list[KernelRow]
    engines: list[EngineRow]
    recipes: list[RecipeRow]
    roofline: list[RooflineRow]  # empty if the peak is not known
    copies: int
    copies_ms: float
    peak: HostRates | None

    @staticmethod
    def of(profile: Trace, measure_peak: bool) -> Report:
        peak = HostRates.known() if measure_peak else None
        waits = waiting(profile)
        runs = profile.kernels
        total_ns = sum(k.duration_ns for k in runs) or 1
        by_kernel: dict[tuple[str, int, str], list[Kernel]] = defaultdict(list)
        by_engine: dict[str, list[Kernel]] = defaultdict(list)
        for run in runs:
            by_kernel[(run.recipe, run.index, run.name)].append(run)
            by_engine[run.engine].append(run)
        kernels = [
            _kernel_row(group, total_ns, peak, waits.before_kernel_ns.get((name, index), 0), waits)
            for (name, index, _), group in by_kernel.items()
        ]
        engines = [_engine_row(group, total_ns, peak) for group in by_engine.values()]
        return Report(
            sorted(kernels, key=lambda row: -row.total_ms),
            sorted(engines, key=lambda row: -row.total_ms),
            sorted(_recipe_rows(profile, waits), key=lambda row: -row.total_ms),
            _roofline_rows(by_kernel, peak) if peak is not None else [],
            len(profile.copies),
            sum(c.duration_ns for c in profile.copies) / 1e6,
            peak,
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self, limit: int = 40, width: int | None = None) -> str:
        """The tables as text. `limit`: most kernels to list, 0 for all; `width`: columns, by
        default the terminal's."""
        from rich.console import Console

        out = io.StringIO()
        console = Console(file=out, width=width or max(Console().width, 120))
        console.print(tables.engine_table(self.engines))
        console.print(tables.recipe_table(self.recipes))
        if self.roofline:
            console.print(tables.roofline_table(self.roofline))
        console.print(tables.kernel_table(self.kernels[: limit or None]))
        if limit and len(self.kernels) > limit:
            rest = sum(row.share for row in self.kernels[limit:])
            console.print(f"and {len(self.kernels) - limit} kernels more, {rest:.1%} of the time")
        if self.copies:
            console.print(f"{self.copies} queued copies and fills, {self.copies_ms:.3f} ms")
        if self.peak is not None:
            console.print(
                f"Peak, measured once on this host: {self.peak.flops_per_second / 1e9:.1f} GFLOP/s "
                f"f32, {self.peak.bf16_flops_per_second / 1e9:.1f} bf16, "
                f"{self.peak.bytes_per_second / 1e9:.1f} GB/s. All times are CPU timings of the "
                "emulated device; they say nothing about a Gaudi card."
            )
        return out.getvalue()

    def __str__(self) -> str:
        return self.table()


def _kernel_row(
    group: list[Kernel], total_ns: int, peak: HostRates | None, wait_ns: int, waits: Waiting
) -> KernelRow:
    first = group[0]
    total = sum(k.duration_ns for k in group)
    best = min(k.duration_ns for k in group)
    return KernelRow(
        first.nodes,
        first.recipe,
        first.engine,
        len(group),
        total / 1e6,
        best / 1e6,
        total / total_ns,
        first.tasks,
        first.bytes,
        first.flops,
        _per_second(first.flops, best, peak.flops_of(first.factors)) if peak else None,
        _per_second(first.bytes, best, peak.bytes_per_second) if peak else None,
        first.factors,
        sum(k.busy_ns for k in group) / ((total or 1) * waits.threads),
        wait_ns / 1e6,
    )


def _engine_row(group: list[Kernel], total_ns: int, peak: HostRates | None) -> EngineRow:
    total = sum(k.duration_ns for k in group)
    flops = sum(k.flops for k in group)
    moved = sum(k.bytes for k in group)
    # For operations of several types: their time at the peak of each type, over the time they took.
    seconds_at_peak = sum(k.flops / peak.flops_of(k.factors) for k in group) if peak else 0.0
    return EngineRow(
        group[0].engine,
        len(group),
        total / 1e6,
        total / total_ns,
        flops,
        moved,
        _per_second(seconds_at_peak, total, 1),
        _per_second(moved, total, peak.bytes_per_second) if peak else None,
    )


def _recipe_rows(profile: Trace, waits: Waiting) -> list[RecipeRow]:
    launches: dict[str, list[Launch]] = defaultdict(list)
    for launch in profile.launches:
        launches[launch.recipe].append(launch)
    rows = []
    for name, runs in launches.items():
        total = sum(launch.duration_ns for launch in runs)
        of = waits.recipes[name]
        rows.append(
            RecipeRow(
                name,
                len(runs),
                total / 1e6,
                min(launch.duration_ns for launch in runs) / 1e6,
                of.kernels_ns / 1e6,
                runs[0].threads,
                *of.shares(total, runs[0].threads),
                sum(launch.cpu_ns for launch in runs) / (total or 1),
            )
        )
    return rows


def _roofline_rows(
    by_kernel: dict[tuple[str, int, str], list[Kernel]], peak: HostRates
) -> list[RooflineRow]:
    groups: dict[tuple[str, str], list[tuple[Kernel, float, int]]] = defaultdict(list)
    best_of_recipe: dict[str, int] = defaultdict(int)
    for (recipe, index, _), runs in by_kernel.items():
        if index < 0:
            continue  # it packs an operand, once
        kernel = runs[0]
        best = min(run.duration_ns for run in runs)
        arithmetic = kernel.flops / peak.flops_of(kernel.factors)
        memory = kernel.bytes / peak.bytes_per_second
        bound = "arithmetic" if arithmetic >= memory else "memory"
        groups[recipe, bound].append((kernel, max(arithmetic, memory), best))
        best_of_recipe[recipe] += best
    rows = []
    for (recipe, bound), kernels in groups.items():
        best = sum(ns for _, _, ns in kernels)
        flops = sum(kernel.flops for kernel, _, _ in kernels)
        moved = sum(kernel.bytes for kernel, _, _ in kernels)
        least = sum(seconds for _, seconds, _ in kernels)
        rows.append(
            RooflineRow(
                recipe,
                bound,
                len(kernels),
                best / 1e6,
                best / (best_of_recipe[recipe] or 1),
                flops,
                moved,
                flops / (moved or 1),
                least * 1e3,
                least * 1e9 / (best or 1),
            )
        )
    order = {name: -ns for name, ns in best_of_recipe.items()}
    return sorted(rows, key=lambda row: (order[row.recipe], row.recipe, -row.best_ms))
