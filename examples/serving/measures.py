"""The service's metrics, as Prometheus reads them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from backends import Backend
from batching import Batches, RunningBatch
from generation import Generator
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from habana_frameworks.torch.warmup import Buckets

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_ROWS = (1, 2, 4, 8, 16, 32)


@dataclass
class Answered:
    status: int = 500


class Measures:
    """Counters that handlers increase, and gauges that are read when the page is requested."""

    TYPE = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        register = {"registry": self._registry}
        self._requests = Counter(
            "serving_requests", "Requests by path and status", ["path", "status"], **register
        )
        self._seconds = Histogram(
            "serving_request_seconds",
            "From a request to the end of its answer",
            ["path"],
            buckets=_SECONDS,
            **register,
        )
        self.rows = Histogram(
            "serving_batch_rows", "Requests of a launch", ["kind"], buckets=_ROWS, **register
        )
        self.tokens = Counter("serving_tokens", "Generated tokens", **register)
        self.warmed = Gauge("serving_warm_shapes", "Shapes that are warm", ["kind"], **register)
        self._padding = Gauge(
            "serving_padding",
            "Share of padding in the inputs of a shape so far",
            ["kind", "shape"],
            **register,
        )
        self._buckets: dict[str, Buckets] = {}

    def watch(
        self,
        texts: Batches[list[int], list[float]],
        batch: RunningBatch,
        generator: Generator,
        buckets: dict[str, Buckets],
        backend: Backend,
    ) -> None:
        """Adds gauges for these values."""
        self._buckets = buckets
        register = {"registry": self._registry}
        waiting = Gauge("serving_waiting", "Requests that wait", ["kind"], **register)
        waiting.labels("embed").set_function(lambda: texts.waiting)
        waiting.labels("generate").set_function(lambda: batch.waiting)
        running = Gauge("serving_running_rows", "Requests that generate", **register)
        running.set_function(lambda: len(generator.rows))
        if backend.device == "hpu":
            self._count_programs()

    def _count_programs(self) -> None:
        from habana_frameworks.torch.dynamo import report

        def count(name: str, text: str, value: str) -> None:
            gauge = Gauge(name, text, registry=self._registry)
            gauge.set_function(lambda: getattr(report(), value))

        count("serving_programs_compiled", "Programs this process had compiled", "compilations")
        count("serving_programs_found", "Programs it found in a store", "hits")
        count("serving_eager_segments", "Parts of graphs that run eagerly", "eager_segments")

    @contextmanager
    def request(self, path: str) -> Iterator[Answered]:
        """Counts and times the block. Its status is the one that the block sets, or 500."""
        answered = Answered()
        begin = time.perf_counter()
        try:
            yield answered
        finally:
            self._requests.labels(path, str(answered.status)).inc()
            self._seconds.labels(path).observe(time.perf_counter() - begin)

    def page(self) -> bytes:
        for kind, buckets in self._buckets.items():
            for shape, share in buckets.waste().items():
                self._padding.labels(kind, f"{shape.batch}x{shape.sequence}").set(share)
        return generate_latest(self._registry)
