#!/usr/bin/env python3
"""Restarts all replicas of the service, one after the other, under load.

    ./dev python examples/serving/rolling.py [--replicas 4] [--rate 8] [--json]

All share one cache folder. The first one compiles; from then on nothing is compiled, no request is
lost and equal requests have equal answers, whichever replica gave them: else it exits with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
from contextlib import ExitStack
from typing import Any

from load import Request, Sample, run_load, summary
from replica import Replica, cache_folder
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sizes import SIZES

# Vectors have unit length.
_SAME = 1e-4


def different_answers(samples: list[Sample]) -> int:
    """Requests whose answer is not that of the first equal request."""
    first: dict[Request, tuple[float, ...]] = {}
    different = 0
    for sample in samples:
        if not sample.error:
            known = first.setdefault(sample.request, sample.answer)
            apart = [abs(a - b) for a, b in zip(known, sample.answer, strict=False)]
            same = len(known) == len(sample.answer) and max(apart) < _SAME
            different += not same
    return different


def roll(replicas: list[Replica], rate: float, tokens: int, progress: Progress) -> dict[str, Any]:
    """Starts the replicas, restarts each under load, and stops them."""
    starts = progress.add_task("replicas started", total=2 * len(replicas))
    answers = progress.add_task("requests answered", total=None)
    ready: list[float] = []
    compiled: list[int] = []
    statuses: list[int] = []

    def start(replica: Replica) -> None:
        replica.start()
        ready.append(replica.wait_ready())
        compiled.append(int(replica.metrics()["serving_programs_compiled"]))
        progress.advance(starts)

    for replica in replicas:
        start(replica)
    rolled = threading.Event()
    samples: list[Sample] = []

    def load() -> None:
        urls = [replica.url for replica in replicas]
        samples.extend(
            asyncio.run(
                run_load(
                    urls, rate, rolled.is_set, tokens, answered=lambda _: progress.advance(answers)
                )
            )
        )

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for replica in replicas:
            statuses.append(replica.stop())
            start(replica)
        after = sum(int(r.metrics()["serving_programs_compiled"]) for r in replicas)
    finally:
        rolled.set()
        thread.join()
    return {
        "replicas": len(replicas),
        "seconds to ready": [round(seconds, 2) for seconds in ready],
        "programs compiled at each start": compiled,
        "programs compiled in restarted replicas": after,
        "exit statuses": statuses,
        "requests": len(samples),
        "lost": sum(bool(sample.error) for sample in samples),
        "errors": sorted({sample.error for sample in samples if sample.error}),
        "different answers": different_answers(samples),
        "latencies": summary(samples),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--rate", type=float, default=8, help="requests per second")
    parser.add_argument("--tokens", type=int, default=24, help="at most, of a request")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with ExitStack() as stack:
        folder = stack.enter_context(cache_folder())
        replicas = [
            Replica("hpu", arguments.size, {"HPU_CACHE_DIR": str(folder)})
            for _ in range(arguments.replicas)
        ]
        for replica in replicas:
            stack.callback(replica.stop)
        progress = stack.enter_context(
            Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
        )
        figures = roll(replicas, arguments.rate, arguments.tokens, progress)
    if arguments.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            print(f"{name}: {value}")
    good = (
        figures["lost"] == 0
        and figures["different answers"] == 0
        and not any(figures["programs compiled at each start"][1:])
        and figures["programs compiled in restarted replicas"] == 0
        and not any(figures["exit statuses"])
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
