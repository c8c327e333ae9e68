"""A profile's tables for a terminal."""

from __future__ import annotations

from typing import Any

from .rows import EngineRow, KernelRow, RecipeRow, RooflineRow


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


def engine_table(rows: list[EngineRow]) -> Any:
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


def recipe_table(rows: list[RecipeRow]) -> Any:
    table = _table(
        "Launches",
        1,
        [
            "recipe",
            "launches",
            "ms",
            "best ms",
            "in kernels",
            "threads",
            "busy",
            "uneven",
            "between",
            "CPU/wall",
        ],
    )
    for row in rows:
        table.add_row(
            row.recipe,
            str(row.launches),
            f"{row.total_ms:.3f}",
            f"{row.best_ms:.3f}",
            _percent(row.kernels_ms / row.total_ms if row.total_ms else None),
            str(row.threads),
            _percent(row.busy_share),
            _percent(row.uneven_share),
            _percent(row.between_share),
            f"{row.cpu_per_wall:.2f}",
        )
    return table


def roofline_table(rows: list[RooflineRow]) -> Any:
    table = _table(
        "Roofline",
        2,
        [
            "recipe",
            "bound by",
            "kernels",
            "best ms",
            "time",
            "GFLOP",
            "GB",
            "FLOP/byte",
            "least ms",
            "of least",
        ],
    )
    for row in rows:
        table.add_row(
            row.recipe,
            row.bound,
            str(row.kernels),
            f"{row.best_ms:.3f}",
            _percent(row.share),
            f"{row.flops / 1e9:.3f}",
            f"{row.bytes / 1e9:.3f}",
            f"{row.intensity:.1f}",
            f"{row.least_ms:.3f}",
            _percent(row.least_share),
        )
    return table


def kernel_table(rows: list[KernelRow]) -> Any:
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
            "busy",
            "wait ms",
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
            _percent(row.busy_share),
            f"{row.wait_ms:.3f}",
        )
    return table
