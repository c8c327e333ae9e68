"""The results of a comparison of services as a table, a picture and a page of documentation."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from load import NEVER_READY, Sample, percentile
from rich.console import Console
from rich.table import Table
from sizes import SIZES

_SHARES = {"p50": 0.5, "p99": 0.99}
PAGE = Path(__file__).resolve().parents[2] / "docs/serving.md"
PICTURE = PAGE.with_suffix(".png")


@dataclass(frozen=True)
class Life:
    """A contender's first seconds. Times in seconds since its process began."""

    contender: str
    ready: float | None  # None: it was not ready within the limit
    samples: list[Sample]
    metrics: dict[str, float]

    def latency(self, share: float, since: float = 0.0) -> float:
        """A percentile over requests that came from `since` on; NaN if there are none."""
        found = [s.seconds for s in self.samples if s.begin >= since and not s.error]
        return percentile(found, share) if found else float("nan")

    def figures(self) -> dict[str, Any]:
        tokens = sum(len(s.answer) for s in self.samples if s.request.path == "/generate")
        errors = [sample.error for sample in self.samples if sample.error]
        since = float("inf") if self.ready is None else self.ready
        return {
            "contender": self.contender,
            "ready": self.ready,
            "requests": len(self.samples),
            "unanswered": errors.count(NEVER_READY),
            "lost": len(errors) - errors.count(NEVER_READY),
            "tokens": tokens,
            **{name: self.latency(share) for name, share in _SHARES.items()},
            **{f"{name} once ready": self.latency(share, since) for name, share in _SHARES.items()},
            "compiled": self.metrics.get("serving_programs_compiled"),
            "found": self.metrics.get("serving_programs_found"),
        }


def draw(lives: Sequence[Life], limit: float, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (bars, curves) = pyplot.subplots(1, 2, figsize=(13, 5), width_ratios=(1, 2))
    colours = [f"C{number}" for number in range(len(lives))]
    names = [life.contender for life in lives]
    drawn = bars.barh(names, [life.ready or limit for life in lives], color=colours)
    for life, bar in zip(lives, drawn, strict=True):
        if life.ready is None:
            bar.set(hatch="//", alpha=0.4)
    bars.bar_label(drawn, [ready_text(life.ready, limit) for life in lives], padding=3)
    bars.invert_yaxis()
    bars.set(xlabel="seconds from the process's start", title="Ready")
    bars.margins(x=0.6)
    for life, colour in zip(lives, colours, strict=True):
        for (name, share), style in zip(_SHARES.items(), ("-", ":"), strict=True):
            times, values = windows(life.samples, share)
            label = f"{life.contender}, {name}"
            curves.plot(times, values, style, color=colour, marker=".", label=label)
    # A logarithmic axis without a value above 0 is an error.
    scale = "log" if any(life.latency(1) > 0 for life in lives) else "linear"
    curves.set(
        xlabel="a request came so many seconds after the process's start",
        ylabel="seconds until its answer was whole",
        title="Latency",
        xscale=scale,
        yscale=scale,
    )
    for axis in (curves.xaxis, curves.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    curves.grid(which="both", alpha=0.2)
    curves.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def windows(samples: Sequence[Sample], share: float) -> tuple[list[float], list[float]]:
    """A percentile over windows of time; each is a quarter longer since the start than the last."""
    times, values = [], []
    good = sorted((s for s in samples if not s.error), key=lambda sample: sample.begin)
    while good:
        end = max(good[0].begin, 0.5) * 1.25
        window = [sample for sample in good if sample.begin < end]
        good = good[len(window) :]
        times.append(sum(sample.begin for sample in window) / len(window))
        values.append(percentile([sample.seconds for sample in window], share))
    return times, values


def ready_text(ready: float | None, limit: float) -> str:
    return f"not ready after {limit:.0f} s" if ready is None else f"{ready:.1f} s"


def shown(value: Any) -> str:
    if value is None or value != value:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def page(rows: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> str:
    """The text of docs/serving.md."""
    size = SIZES[arguments.size]
    command = (
        f"./dev python examples/serving/compare.py --size {arguments.size} --rate "
        f"{arguments.rate:g} --seconds {arguments.seconds:g} --limit {arguments.limit:g} --docs"
    )
    lines = [
        "# A service from its first second on",
        "",
        "This page shows the time until the example service (`examples/serving/`) is ready, and",
        "its latency since its process began: on the emulated device cold, warm from a compile",
        "server and warm on its own host, beside the same service on Inductor and in eager mode.",
        "It is written by",
        "",
        f"    {command}",
        "",
        f"on {os.cpu_count()} cores. All contenders serve the same {size.shapes} shapes "
        f"(`sizes.py`, {arguments.size}) and get {arguments.rate:g} requests",
        "per second from the moment the process begins; requests wait until it is ready. Latency",
        "is the time in seconds from when a request came until its answer was complete.",
        "",
        "| " + " | ".join(rows[0]) + " |",
        "|" + "---|" * len(rows[0]),
    ]
    for row in rows:
        cells = {**row, "ready": ready_text(row["ready"], arguments.limit)}
        lines.append("| " + " | ".join(map(shown, cells.values())) + " |")
    if any(row["ready"] is None for row in rows):
        lines += [
            "",
            "A contender that was not ready in time was stopped; what it had stored by then",
        ]
        lines += ["is what the warm one found."]
    return "\n".join([*lines, "", f"![Time to ready and latency]({PICTURE.name})", ""])


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title="seconds; requests came from the process's start on")
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "contender" else "right")
    for row in rows:
        table.add_row(*map(shown, row.values()))
    Console().print(table)
