#!/usr/bin/env python3
"""The service from its first second on: hpu cold and warm, Inductor and eager, side by side.

    ./dev python examples/serving/compare.py [--rate 4] [--seconds 15] [--docs] [--json]

Each contender is started anew, one after the other, with the same load from the moment its process
begins: requests wait until the service is ready, and their latency counts from when they came. The
picture shows the time to ready, and median and 99th percentile of the latency over the time since
the process began. Contenders: `hpu cold` (no program anywhere; a compile server of a cluster
compiles them), `hpu shared` (another host, which finds them there), `hpu local` (the first host
again), `inductor cold` and `inductor warm` (its cache folder), `eager`. All serve the same shapes.
A contender that is not ready after --limit seconds is stopped and shown so; with the defaults the
whole takes less than ten minutes. --docs writes docs/serving.md and its picture. Needs
redis-server.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lives import PAGE, PICTURE, Life, draw, page, print_table, shown
from load import Sample, run_load
from replica import Replica
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sizes import SIZES

sys.path.append(str(Path(__file__).resolve().parents[1] / "cluster"))

from cluster import Cluster
from machines import Loopback

CONTENDERS = ("hpu cold", "hpu shared", "hpu local", "inductor cold", "inductor warm", "eager")


@contextmanager
def environments() -> Iterator[Callable[[str], dict[str, str]]]:
    """The environment of a contender's process. Its files lie in a folder that is removed."""
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
    """One start of the service under load, until `--seconds` after it was ready, or `--limit`."""
    replica = Replica(contender.split()[0], arguments.size, environment)
    ended = threading.Event()
    samples: list[Sample] = []

    def load() -> None:
        samples.extend(
            asyncio.run(
                run_load([replica.url], arguments.rate, ended.is_set, arguments.tokens, patience=5)
            )
        )

    ready: float | None = None
    replica.start()
    thread = threading.Thread(target=load)
    thread.start()
    try:
        ready, metrics = _watch(replica, arguments)
    finally:
        ended.set()
        thread.join()
        # A service that still compiles does not end when it is asked to.
        replica.stop(5 if ready is None else 150)
    return Life(contender, ready, samples, metrics)


def _watch(
    replica: Replica, arguments: argparse.Namespace
) -> tuple[float | None, dict[str, float]]:
    try:
        ready = replica.wait_ready(arguments.limit)
    except TimeoutError:
        return None, {}
    time.sleep(arguments.seconds)
    return ready, replica.metrics()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--contenders", default=",".join(CONTENDERS), help="some of these, in order"
    )
    parser.add_argument("--rate", type=float, default=4, help="requests per second")
    parser.add_argument("--seconds", type=float, default=15, help="of load after ready")
    parser.add_argument(
        "--limit", type=float, default=150, help="seconds after which a contender is stopped"
    )
    parser.add_argument("--tokens", type=int, default=24, help="at most, of a request")
    parser.add_argument("--size", choices=SIZES, default="reduced")
    parser.add_argument("--picture", type=Path, default=Path("serving.png"))
    parser.add_argument("--docs", action="store_true", help=f"write {PAGE.name} and its picture")
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
    rows = [life.figures() for life in lives]
    draw(lives, arguments.limit, arguments.picture)
    if arguments.docs:
        draw(lives, arguments.limit, PICTURE)
        PAGE.write_text(page(rows, arguments))
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        print_table(rows)
        print(f"picture: {arguments.picture}")
    return int(any(row["lost"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
