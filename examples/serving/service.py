#!/usr/bin/env python3
"""An HTTP service that embeds sentences (MiniLM) and generates text (a small Llama).

    ./dev python examples/serving/service.py --port 8000

POST /embed {"text": ...} -> {"embedding": [...]}. POST /generate {"prompt": ..., "max_tokens": 16}
streams server-sent events, {"token": number, "text": ...} each, and {"done": true} at the end.
GET /ready is 200 once all shapes are warm, else 503 with the progress; GET /live; GET /metrics for
Prometheus. At most --most-requests of a path are taken at a time; one more gets 429, one that comes
before the service is ready gets 503. Both have Retry-After: they were not taken, so they may be
sent again.
At SIGTERM /ready turns 503, requests are taken for --drain seconds more, those that were taken are
answered, and the process ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web
from backends import BACKENDS, Backend
from batching import Batches, RunningBatch
from embedding import Embedder
from generation import Generator, Row
from measures import Measures
from sizes import SIZES, Size

from habana_frameworks.torch import warmup

# The status that other servers log for a client that did not wait for its answer.
_CLIENT_LEFT = 499
# Seconds after which a request that was not taken may come again.
_RETRY_AFTER = {"Retry-After": "1"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Warmed(NamedTuple):
    """The progress of a warm-up, for backends that have no warm-up of their own."""

    done: int
    total: int


class Service:
    """Models, batches and HTTP handlers. One thread of its own calls the models."""

    def __init__(self, backend: Backend, size: Size, show: bool, most_requests: int = 256) -> None:
        self.device = ThreadPoolExecutor(1, thread_name_prefix="device")
        self.embedder = Embedder(backend, size)
        self.generator = Generator(backend, size)
        self.measures = Measures()
        rows = self.measures.rows
        self.texts = Batches(
            self.embedder.embed,
            self.embedder.largest_batch,
            self.device,
            rows.labels("embed").observe,
        )
        self.batch = RunningBatch(self.generator, self.device, rows.labels("generate").observe)
        padded = {"embed": self.embedder.buckets, "prompts": self.generator.prompts}
        self.measures.watch(self.texts, self.batch, self.generator, padded, backend)
        self.state = "warming"
        self._on_hpu = backend.device == "hpu"
        self._warmed: dict[str, str] = {}
        self._show = show
        self._most_requests = most_requests
        self._taken: Counter[str] = Counter()  # by path: requests that wait or run

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._measured])
        application.add_routes(
            [
                web.post("/embed", self._answer_embed),
                web.post("/generate", self._answer_generate),
                web.get("/ready", self._answer_ready),
                web.get("/live", self._answer_live),
                web.get("/metrics", self._answer_metrics),
            ]
        )
        application.cleanup_ctx.append(self._running)
        return application

    async def _running(self, _: web.Application) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work()) for work in (self.texts.run, self.batch.run)]
        tasks.append(asyncio.create_task(self._warm()))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.device.shutdown()

    async def _warm(self) -> None:
        """Runs every shape once; then the service is ready. Shapes that failed are reported."""
        grids = (
            ("embed", self.embedder.warm, self.embedder.buckets),
            ("prompts", self.generator.warm_prompts, self.generator.prompts),
            ("tokens", self.generator.warm_cache, self.generator.caches),
        )
        for name, run, buckets in grids:
            if self._on_hpu:
                handle = warmup.start(run, buckets, on_progress=partial(self._progress, name))
                try:
                    report = await handle.wait_async()
                finally:
                    handle.cancel()
                if not report.complete:
                    print(f"warm-up of {name}:\n{report.table()}", file=sys.stderr, flush=True)
                    self.state = f"warm-up of {name} failed"
                    return
            else:
                shapes = buckets.shapes()
                for done, shape in enumerate(shapes, 1):
                    try:
                        await asyncio.get_running_loop().run_in_executor(self.device, run, shape)
                    except Exception as error:
                        print(f"warm-up of {name}, {shape}: {error}", file=sys.stderr, flush=True)
                        self.state = f"warm-up of {name} failed"
                        return
                    self._progress(name, Warmed(done, len(shapes)))
        self.state = "ready"

    def _progress(self, name: str, progress: warmup.Progress | Warmed) -> None:
        self._warmed[name] = f"{progress.done} of {progress.total}"
        self.measures.warmed.labels(name).set(progress.done)
        if self._show:
            print(f"warm-up of {name}: {self._warmed[name]}", file=sys.stderr, flush=True)

    @web.middleware
    async def _measured(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method != "POST":
            return await handler(request)
        if self.state not in ("ready", "draining"):
            return web.json_response({"error": self.state}, status=503, headers=_RETRY_AFTER)
        with self.measures.request(request.path) as answered, self._room(request.path) as room:
            if not room:
                answered.status = 429
                error = {"error": f"{self._most_requests} requests wait or run already"}
                return web.json_response(error, status=429, headers=_RETRY_AFTER)
            try:
                response = await handler(request)
            except web.HTTPException as refusal:
                answered.status = refusal.status
                raise
            except ConnectionError:
                answered.status = _CLIENT_LEFT
                raise
            answered.status = response.status
            return response

    @contextlib.contextmanager
    def _room(self, path: str) -> Iterator[bool]:
        """Whether the block's request is taken."""
        room = self._taken[path] < self._most_requests
        self._taken[path] += room
        try:
            yield room
        finally:
            self._taken[path] -= room

    async def _answer_embed(self, request: web.Request) -> web.Response:
        with _refusing():
            text = _field(await request.json(), "text", str)
        vector = await self.texts.result(self.embedder.tokens(text))
        return web.json_response({"embedding": vector})

    async def _answer_generate(self, request: web.Request) -> web.StreamResponse:
        tokenizer = self.embedder.tokenizer
        with _refusing():
            body = await request.json()
            prompt = tokenizer(_field(body, "prompt", str), add_special_tokens=False)["input_ids"]
            limit = _field(body, "max_tokens", int, 16)
            self.generator.check(prompt, limit)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async with contextlib.aclosing(self.batch.tokens(Row(prompt, limit))) as tokens:
            try:
                async for token in tokens:
                    self.measures.tokens.inc()
                    await _event(response, {"token": token, "text": tokenizer.decode([token])})
                await _event(response, {"done": True})
            except ConnectionError:
                raise
            except Exception as error:  # of the device: the status line is already sent
                await _event(response, {"error": f"{error}"})
        await response.write_eof()
        return response

    async def _answer_ready(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"state": self.state, "warm": self._warmed},
            status=200 if self.state == "ready" else 503,
        )

    async def _answer_live(self, _: web.Request) -> web.Response:
        return web.json_response({"state": self.state})

    async def _answer_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.measures.page(), headers={"Content-Type": Measures.TYPE})


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Turns a ValueError of the block into status 400 with its text."""
    try:
        yield
    except ValueError as error:
        text = json.dumps({"error": f"{error}"})
        raise web.HTTPBadRequest(text=text, content_type="application/json") from error


def _field(body: Any, name: str, kind: type, default: Any = None) -> Any:
    if not isinstance(body, dict):
        raise ValueError("the body is no JSON object")
    value = body.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name!r} must be of type {kind.__name__}")
    return value


async def _event(response: web.StreamResponse, value: dict[str, Any]) -> None:
    await response.write(f"data: {json.dumps(value)}\n\n".encode())


async def serve(service: Service, host: str, port: int, drain: float) -> None:
    """Serves until SIGTERM or SIGINT, then stops as the module's docstring describes."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = web.AppRunner(service.application(), shutdown_timeout=120)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    await stop.wait()
    if service.state == "ready":
        service.state = "draining"
        await asyncio.sleep(drain)
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS, default="hpu")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--drain", type=float, default=1.0, help="seconds in which balancers see /ready turn 503"
    )
    parser.add_argument(
        "--most-requests", type=int, default=256, help="of a path that wait or run at a time"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress of the warm-up")
    arguments = parser.parse_args()
    service = Service(
        BACKENDS[arguments.backend],
        SIZES[arguments.size],
        show=not arguments.quiet,
        most_requests=arguments.most_requests,
    )
    asyncio.run(serve(service, arguments.host, arguments.port, arguments.drain))


if __name__ == "__main__":
    main()
