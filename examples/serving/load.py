#!/usr/bin/env python3
"""Load for the service: requests at random times, each to the next replica that is ready.

    ./dev python examples/serving/load.py http://127.0.0.1:8000 [URL ...] --rate 10 --seconds 20

Requests come at a given rate whether or not earlier ones are answered (an open loop), and wait
while no replica is ready.
Times are from when a request came until its answer was complete.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sentences import QUERIES, SENTENCES

_ASK_EVERY_S = 0.1
# The error of a request that no replica took before the load was over.
NEVER_READY = "no replica became ready"


@dataclass(frozen=True)
class Request:
    path: str
    body: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Sample:
    """A request and its outcome. Times are in seconds; `begin` is since the load began."""

    request: Request
    begin: float
    seconds: float
    first_seconds: float  # until the first token (/generate)
    answer: tuple[float, ...]  # the vector or the tokens
    error: str  # "" if it was answered


class Balancer:
    """Sends requests in turn to the replicas that are ready; asks their /ready ten times a second.

    A request that a replica refuses was not taken and goes to another (no connection, 503), or
    again after the time that the replica asks for (429). A request is lost if a
    replica that took it fails, or if none is ready once the load is over.
    """

    def __init__(self, urls: Sequence[str], session: aiohttp.ClientSession) -> None:
        self._urls = urls
        self._session = session
        self._ready: dict[str, bool] = dict.fromkeys(urls, False)
        self._turn = itertools.count()
        self._changed = asyncio.Condition()
        self._over = False

    async def close(self, seconds: float) -> None:
        """Waits these seconds; after that no request waits for a replica to become ready."""
        await asyncio.sleep(seconds)
        async with self._changed:
            self._over = True
            self._changed.notify_all()

    async def watch(self) -> None:
        """Asks all replicas until it is cancelled."""
        await asyncio.gather(*(self._watch(url) for url in self._urls))

    async def _watch(self, url: str) -> None:
        while True:
            ready = False
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with asyncio.timeout(5), self._session.get(f"{url}/ready") as response:
                    ready = response.status == 200
            async with self._changed:
                self._ready[url] = ready
                self._changed.notify_all()
            await asyncio.sleep(_ASK_EVERY_S)

    async def _next(self) -> str | None:
        """None if no replica is ready and the load is over."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._over or any(self._ready.values()))
            ready = [url for url in self._urls if self._ready[url]]
            return ready[next(self._turn) % len(ready)] if ready else None

    async def send(self, request: Request, began: float) -> Sample:
        """`began` is the monotonic time that the load began."""
        begin = first = time.monotonic()
        answer, error = [], ""
        while True:
            url = await self._next()
            if url is None:
                error = NEVER_READY
                break
            try:
                async with self._session.post(url + request.path, json=dict(request.body)) as got:
                    if got.status == 429:
                        await asyncio.sleep(float(got.headers["Retry-After"]))
                        continue
                    if got.status != 503:
                        first, answer = await _read(got)
                        break
            except aiohttp.ClientConnectorError:
                pass
            except (aiohttp.ClientError, OSError, RuntimeError) as problem:
                error = f"{type(problem).__name__}: {problem}"
                break
            self._ready[url] = False
        end = time.monotonic()
        return Sample(request, begin - began, end - begin, first - begin, tuple(answer), error)


async def _read(response: aiohttp.ClientResponse) -> tuple[float, list[float]]:
    """When the first part of the answer came, and the answer. RuntimeError if there is none."""
    if response.status != 200:
        raise RuntimeError(f"status {response.status}: {await response.text()}")
    if response.content_type == "application/json":
        return time.monotonic(), (await response.json())["embedding"]
    first, tokens, done = 0.0, [], False
    async for line in response.content:
        if line.startswith(b"data: "):
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(event["error"])
            done = done or "done" in event
            if "token" in event:
                first = first or time.monotonic()
                tokens.append(event["token"])
    if not done:
        raise RuntimeError(f"the stream ended after {len(tokens)} tokens")
    return first, tokens


def random_request(draw: random.Random, most_tokens: int) -> Request:
    """Half of them embed one to three sentences, half generate."""
    texts = SENTENCES + QUERIES
    if draw.random() < 0.5:
        return Request("/embed", (("text", " ".join(draw.sample(texts, draw.randint(1, 3)))),))
    body = {"prompt": draw.choice(texts), "max_tokens": draw.randint(1, most_tokens)}
    return Request("/generate", tuple(body.items()))


async def run_load(
    urls: Sequence[str],
    rate: float,
    done: Callable[[], bool],
    most_tokens: int = 24,
    seed: int = 20,
    answered: Callable[[Sample], None] = lambda _: None,
    patience: float = 60,
) -> list[Sample]:
    """Sends until done(), then waits for all answers. Waits at most `patience` seconds for a
    replica to be ready."""
    draw = random.Random(seed)
    jobs: list[asyncio.Task[Sample]] = []
    timeout = aiohttp.ClientTimeout(total=None, sock_read=300)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        balancer = Balancer(urls, session)
        watch = asyncio.create_task(balancer.watch())
        began = due = time.monotonic()
        while not done():
            due += draw.expovariate(rate)
            await asyncio.sleep(max(due - time.monotonic(), 0))
            request = random_request(draw, most_tokens)
            job = asyncio.create_task(balancer.send(request, began))
            job.add_done_callback(lambda job: answered(job.result()))
            jobs.append(job)
        closing = asyncio.create_task(balancer.close(patience))
        samples = [await job for job in jobs]
        closing.cancel()
        watch.cancel()
        return samples


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[math.ceil(len(values) * share) - 1]


def summary(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Figures by path; times are in seconds."""
    figures: dict[str, dict[str, float]] = {}
    for path in sorted({sample.request.path for sample in samples}):
        good = [s for s in samples if s.request.path == path and not s.error]
        row: dict[str, float] = {"answered": len(good)}
        row["lost"] = sum(s.request.path == path for s in samples) - len(good)
        for share in (0.5, 0.9, 0.99):
            if good:
                row[f"p{share * 100:.0f}"] = percentile([s.seconds for s in good], share)
        if good and path == "/generate":
            row["first token p50"] = percentile([s.first_seconds for s in good], 0.5)
            row["tokens"] = sum(len(s.answer) for s in good)
        figures[path] = row
    return figures


def main() -> int:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--rate", type=float, default=10, help="requests per second")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--tokens", type=int, default=24, help="at most, of a request")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("answers", total=None)
        samples = asyncio.run(
            run_load(
                arguments.urls,
                arguments.rate,
                lambda: time.monotonic() > end,
                arguments.tokens,
                answered=lambda _: progress.advance(task),
            )
        )
    figures = summary(samples)
    if arguments.json:
        print(json.dumps({"figures": figures, "samples": [asdict(s) for s in samples]}))
    else:
        for path, row in figures.items():
            table = Table(title=f"{path}, seconds")
            for name in row:
                table.add_column(name, justify="right")
            table.add_row(*(f"{value:.4g}" for value in row.values()))
            Console().print(table)
    for problem, count in Counter(s.error for s in samples if s.error).items():
        print(f"lost {count}: {problem}", file=sys.stderr)
    return int(any(sample.error for sample in samples))


if __name__ == "__main__":
    sys.exit(main())
