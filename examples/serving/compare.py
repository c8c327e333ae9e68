#!/usr/bin/env python3
"""The service from its first second on: hpu cold and warm, Inductor and eager, side by side.

    ./dev python examples/serving/compare.py [--rate 4] [--seconds 20] [--picture FILE] [--json]

Each contender is started anew, one after the other, with the same load from the moment its process
begins: requests wait until the service is ready, and their latency counts from when they came. The
picture shows the time to ready, and median and 99th percentile of the latency over the time since
the process began. Contenders: `hpu cold` (no program anywhere; a compile server of a cluster
compiles them), `hpu shared` (another host, which finds them there), `hpu local` (the first host
again), `inductor cold` and `inductor warm` (its cache folder), `eager`. Needs redis-server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from load import Sample, percentile, run_load
from replica import Replica
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sizes import SIZES

sys.path.append(str(Path(__file__).resolve().parents[1] / "cluster"))

from cluster import Cluster
from machines import Loopback

CONTENDERS = ("hpu cold", "hpu shared", "hpu local", "inductor cold", "inductor warm", "eager")
_SHARES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True)
class Life:
    """A contender's first seconds. Times in seconds since its process began."""

    contender: str
    ready: float
    samples: list[Sample]
    metrics: dict[str, float]

    def latency(self, share: float, since: float = 0.0) -> float:
        """Of requests that came from `since` on; NaN if there are none."""
        found = [s.seconds for s in self.samples if s.begin >= since and not s.error]
        return percentile(found, share) if found else float("nan")

    def figures(self) -> dict[str, Any]:
        tokens = sum(len(s.answer) for s in self.samples if s.request.path == "/generate")
        return {
            "contender": self.contender,
            "ready": self.ready,
            "requests": len(self.samples),
            "lost": sum(bool(sample.error) for sample in self.samples),
            "tokens": tokens,
            **{name: self.latency(share) for name, share in _SHARES.items()},
            **{f"{name} once ready": self.latency(v, self.ready) for name, v in _SHARES.items()},
            "compiled": self.metrics.get("serving_programs_compiled"),
            "found": self.metrics.get("serving_programs_found"),
        }


@contextmanager
def environments() -> Iterator[Callable[[str], dict[str, str]]]:
    """What a contender's process gets; what it keeps lies in a folder that is removed."""
    with tempfile.TemporaryDirectory(prefix="hpu-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder), 1, Loopback(), buildgrid=False)
        hosts = {"hpu cold": 0, "hpu shared": 1, "hpu local": 0}

        def environment(contender: str) -> dict[str, str]:
            if contender in hosts:
                return cluster.environment(hosts[contender])
            return {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}

        try:
            yield environment
        finally:
            cluster.close()


def live(contender: str, environment: dict[str, str], arguments: argparse.Namespace) -> Life:
    """One start of the service under load, until `--seconds` after it was ready."""
    replica = Replica(contender.split()[0], arguments.size, environment)
    ended = threading.Event()
    samples: list[Sample] = []

    def load() -> None:
        samples.extend(
            asyncio.run(run_load([replica.url], arguments.rate, ended.is_set, arguments.tokens))
        )

    replica.start()
    thread = threading.Thread(target=load)
    thread.start()
    try:
        ready = replica.wait_ready()
        time.sleep(arguments.seconds)
        metrics = replica.metrics()
    finally:
        ended.set()
        thread.join()
        replica.stop()
    return Life(contender, ready, samples, metrics)


def draw(lives: Sequence[Life], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (bars, curves) = pyplot.subplots(1, 2, figsize=(13, 5), width_ratios=(1, 2))
    colours = [f"C{number}" for number in range(len(lives))]
    names = [life.contender for life in lives]
    drawn = bars.barh(names, [life.ready for life in lives], color=colours)
    bars.bar_label(drawn, fmt="%.1f s", padding=3)
    bars.invert_yaxis()
    bars.set(xlabel="seconds from the process's start", title="Ready", xscale="log")
    bars.margins(x=0.25)
    for life, colour in zip(lives, colours, strict=True):
        for (name, share), style in zip(_SHARES.items(), ("-", ":"), strict=True):
            times, values = windows(life.samples, share)
            label = f"{life.contender}, {name}"
            curves.plot(times, values, style, color=colour, marker=".", label=label)
    curves.set(
        xlabel="a request came so many seconds after the process's start",
        ylabel="seconds until its answer was whole",
        title="Latency",
        xscale="log",
        yscale="log",
    )
    curves.grid(which="both", alpha=0.2)
    curves.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def windows(samples: Sequence[Sample], share: float) -> tuple[list[float], list[float]]:
    """A percentile over windows of time, each a quarter longer since the start than the last."""
    times, values = [], []
    good = sorted((s for s in samples if not s.error), key=lambda sample: sample.begin)
    while good:
        end = max(good[0].begin, 0.5) * 1.25
        window = [sample for sample in good if sample.begin < end]
        good = good[len(window) :]
        times.append(sum(sample.begin for sample in window) / len(window))
        values.append(percentile([sample.seconds for sample in window], share))
    return times, values


def shown(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title="seconds; requests came from the process's start on")
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "contender" else "right")
    for row in rows:
        table.add_row(*map(shown, row.values()))
    Console().print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--contenders", default=",".join(CONTENDERS), help="some of these, in order"
    )
    parser.add_argument("--rate", type=float, default=4, help="requests per second")
    parser.add_argument("--seconds", type=float, default=20, help="of load after ready")
    parser.add_argument("--tokens", type=int, default=24, help="at most, of a request")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--picture", type=Path, default=Path("serving.png"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    contenders = arguments.contenders.split(",")
    if unknown := set(contenders) - set(CONTENDERS):
        parser.error(f"unknown contenders: {', '.join(sorted(unknown))}")
    if shutil.which("redis-server") is None:
        sys.exit("this example needs redis-server: apt-get install redis-server")
    lives = []
    with ExitStack() as stack:
        environment = stack.enter_context(environments())
        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        progress = stack.enter_context(Progress(*columns, console=Console(stderr=True)))
        task = progress.add_task("", total=len(contenders))
        for contender in contenders:
            progress.update(task, description=contender)
            lives.append(live(contender, environment(contender), arguments))
            progress.advance(task)
            row = lives[-1].figures()
            progress.console.print(", ".join(f"{name} {shown(row[name])}" for name in row))
    draw(lives, arguments.picture)
    rows = [life.figures() for life in lives]
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print_table(rows)
        print(f"picture: {arguments.picture}")
    return int(any(row["lost"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
