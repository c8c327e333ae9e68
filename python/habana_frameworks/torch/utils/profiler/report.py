"""Tables of a profile: where the time went, and how near that is to what the host can do."""

from __future__ import annotations

import functools
import io
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ... import native

if TYPE_CHECKING:
    from .profile import Kernel, Profile


@dataclass(frozen=True)
class Peak:
    """Best rates of the CPUs behind the emulated device, measured on this host."""

    flops_per_second: float  # f32 multiply-adds, two operations each
    bytes_per_second: float  # read and written, of large buffers

    @staticmethod
    @functools.cache
    def measured() -> Peak | None:
        """Measured once per process; None where the device is not the emulated one."""
        module = native.torch_module()
        return Peak(*module.measure_host_peak()) if module.is_emulated() else None


@dataclass(frozen=True)
class KernelRow:
    """All runs of one kernel of one recipe."""

    nodes: list[str]
    recipe: str
    engine: str
    calls: int
    total_ms: float
    best_ms: float  # of one run
    share: float  # of all kernels' time
    tasks: int
    bytes: int  # of one run, like operations
    flops: int
    peak_share: float | None  # operations per second of the best run, over the measured peak
    bandwidth_share: float | None  # bytes per second likewise; caches can lift it over 1


@dataclass(frozen=True)
class EngineRow:
    engine: str
    kernels: int  # runs
    total_ms: float
    share: float
    flops: int  # of all runs, like bytes
    bytes: int
    peak_share: float | None
    bandwidth_share: float | None


@dataclass(frozen=True)
class RecipeRow:
    recipe: str
    launches: int
    total_ms: float
    best_ms: float
    kernels_ms: float  # of all launches; the rest of total_ms is between kernels


def _shares(
    peak: Peak | None, flops: int, bytes_moved: int, ns: int
) -> tuple[float | None, float | None]:
    if peak is None or ns == 0:
        return None, None
    seconds = ns / 1e9
    return (
        flops / seconds / peak.flops_per_second if flops else None,
        bytes_moved / seconds / peak.bytes_per_second if bytes_moved else None,
    )


@dataclass(frozen=True)
class Report:
    """Rows with the largest time first."""

    kernels: list[KernelRow]
    engines: list[EngineRow]
    recipes: list[RecipeRow]
    copies: int
    copies_ms: float
    peak: Peak | None

    @staticmethod
    def of(profile: Profile, measure_peak: bool) -> Report:
        peak = Peak.measured() if measure_peak else None
        runs = profile.kernels
        total_ns = sum(k.duration_ns for k in runs) or 1
        by_kernel: dict[tuple[str, int, str], list[Kernel]] = defaultdict(list)
        by_engine: dict[str, list[Kernel]] = defaultdict(list)
        for run in runs:
            by_kernel[(run.recipe, run.index, run.name)].append(run)
            by_engine[run.engine].append(run)
        kernels = [_kernel_row(group, total_ns, peak) for group in by_kernel.values()]
        engines = [_engine_row(group, total_ns, peak) for group in by_engine.values()]
        return Report(
            sorted(kernels, key=lambda row: -row.total_ms),
            sorted(engines, key=lambda row: -row.total_ms),
            sorted(_recipe_rows(profile), key=lambda row: -row.total_ms),
            len(profile.copies),
            sum(c.duration_ns for c in profile.copies) / 1e6,
            peak,
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self, limit: int = 40, width: int | None = None) -> str:
        """Text; `limit`: kernels at most, 0 = all; `width`: columns, default the terminal's."""
        from rich.console import Console

        out = io.StringIO()
        console = Console(file=out, width=width or max(Console().width, 120))
        console.print(_engine_table(self.engines))
        console.print(_recipe_table(self.recipes))
        console.print(_kernel_table(self.kernels[: limit or None]))
        if limit and len(self.kernels) > limit:
            rest = sum(row.share for row in self.kernels[limit:])
            console.print(f"and {len(self.kernels) - limit} kernels more, {rest:.1%} of the time")
        if self.copies:
            console.print(f"{self.copies} queued copies and fills, {self.copies_ms:.3f} ms")
        if self.peak is not None:
            console.print(
                f"Peak, measured on this host: {self.peak.flops_per_second / 1e9:.1f} GFLOP/s f32, "
                f"{self.peak.bytes_per_second / 1e9:.1f} GB/s. All times are CPU timings of the "
                "emulated device; they say nothing about a Gaudi card."
            )
        return out.getvalue()

    def __str__(self) -> str:
        return self.table()


def _kernel_row(group: list[Kernel], total_ns: int, peak: Peak | None) -> KernelRow:
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
        *_shares(peak, first.flops, first.bytes, best),
    )


def _engine_row(group: list[Kernel], total_ns: int, peak: Peak | None) -> EngineRow:
    total = sum(k.duration_ns for k in group)
    flops = sum(k.flops for k in group)
    moved = sum(k.bytes for k in group)
    return EngineRow(
        group[0].engine,
        len(group),
        total / 1e6,
        total / total_ns,
        flops,
        moved,
        *_shares(peak, flops, moved, total),
    )


def _recipe_rows(profile: Profile) -> list[RecipeRow]:
    launches: dict[str, list[int]] = defaultdict(list)
    kernels: dict[str, int] = defaultdict(int)
    for launch in profile.launches:
        launches[launch.recipe].append(launch.duration_ns)
    for kernel in profile.kernels:
        kernels[kernel.recipe] += kernel.duration_ns
    return [
        RecipeRow(name, len(ns), sum(ns) / 1e6, min(ns) / 1e6, kernels[name] / 1e6)
        for name, ns in launches.items()
    ]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _table(title: str, text_columns: int, names: list[str]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, name in enumerate(names):
        if i < text_columns:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table


def _engine_table(rows: list[EngineRow]) -> Any:
    table = _table(
        "Engines", 1, ["engine", "kernels", "ms", "time", "GFLOP", "GB", "of peak", "of bandwidth"]
    )
    for row in rows:
        table.add_row(
            row.engine.upper(),
            str(row.kernels),
            f"{row.total_ms:.3f}",
            _percent(row.share),
            f"{row.flops / 1e9:.3f}",
            f"{row.bytes / 1e9:.3f}",
            _percent(row.peak_share),
            _percent(row.bandwidth_share),
        )
    return table


def _recipe_table(rows: list[RecipeRow]) -> Any:
    table = _table("Launches", 1, ["recipe", "launches", "ms", "best ms", "in kernels"])
    for row in rows:
        table.add_row(
            row.recipe,
            str(row.launches),
            f"{row.total_ms:.3f}",
            f"{row.best_ms:.3f}",
            _percent(row.kernels_ms / row.total_ms if row.total_ms else None),
        )
    return table


def _kernel_table(rows: list[KernelRow]) -> Any:
    several = len({row.recipe for row in rows}) > 1
    table = _table(
        "Kernels",
        3 if several else 2,
        [
            *(["recipe"] if several else []),
            "nodes",
            "engine",
            "calls",
            "ms",
            "time",
            "best ms",
            "tasks",
            "MB",
            "MFLOP",
            "of peak",
            "of bandw.",
        ],
    )
    for row in rows:
        table.add_row(
            *([row.recipe] if several else []),
            "\n".join(row.nodes),
            row.engine.upper(),
            str(row.calls),
            f"{row.total_ms:.3f}",
            _percent(row.share),
            f"{row.best_ms:.4f}",
            str(row.tasks),
            f"{row.bytes / 1e6:.3f}",
            f"{row.flops / 1e6:.3f}",
            _percent(row.peak_share),
            _percent(row.bandwidth_share),
        )
    return table
