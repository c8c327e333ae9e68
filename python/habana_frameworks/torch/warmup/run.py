"""Runs a warm-up: many shapes at the server at once, one at a time in this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from .. import native
from ..dynamo.programs import deferred
from ..dynamo.programs.service import MEMORY_PROGRAMS, NoProgram, service
from ..dynamo.records import records
from ..torch_compat.dynamo_settings import dynamo_config
from ..torch_compat.metrics import counters
from .buckets import Buckets, Shape
from .report import Progress, Report, Row

_log = logging.getLogger("habana_frameworks.torch.warmup")

Run = Callable[[Shape], Any]
OnProgress = Callable[[Progress], None]
OnReady = Callable[[Report], None]

# The number of requests at a server at the same time. The server compiles as many at once as it has
# workers, and keeps the others in its lane of warm-ups.
PARALLEL = 8
# A cancelled warm-up checks this often while it waits for a server.
_LOOK_UP_S = 0.2


class Handle:
    """A warm-up that runs in a thread of its own. Thread-safe."""

    def __init__(
        self,
        run: Run,
        shapes: Sequence[Shape],
        on_progress: OnProgress | None,
        on_ready: OnReady | None,
        parallel: int | None,
    ) -> None:
        self._warm_up = _of_shapes(run, shapes, on_progress, parallel)
        self._on_ready = on_ready
        self._report: Report | None = None
        self._ended = threading.Event()
        # This is not a daemon thread: a daemon thread that returns from C++ after the interpreter
        # is gone crashes.
        self._thread = threading.Thread(target=self._work, name="hpu-warm-up")
        self._thread.start()

    def _work(self) -> None:
        try:
            self._report = self._warm_up.run()
        finally:
            if self._report is None:
                self._report = self._warm_up.report("the warm-up broke; the log says more")
            self._ended.set()
        if not self._report.complete:
            errors = [f"; {row.shape}: {row.error}" for row in self._report.rows if row.error]
            _log.warning(
                "the warm-up has ended and not every shape is there: %s%s",
                self._report.summary(),
                errors[0] if errors else "",
            )
        elif self._on_ready is not None:
            _tell(self._on_ready, self._report)

    @property
    def ready(self) -> bool:
        """True when every shape is compiled and was launched once, and none failed or was left."""
        return self._ended.is_set() and self._report is not None and self._report.complete

    @property
    def done(self) -> bool:
        """True when the warm-up has ended, successfully or not."""
        return self._ended.is_set()

    @property
    def progress(self) -> Progress:
        return self._warm_up.progress()

    def wait(self, timeout: float | None = None) -> Report:
        """The report at the end; raises TimeoutError if that is not within `timeout` seconds."""
        if not self._ended.wait(timeout):
            raise TimeoutError(f"the warm-up is not done after {timeout} s: {self.progress}")
        assert self._report is not None
        return self._report

    async def wait_async(self) -> Report:
        """Like wait, without blocking the event loop."""
        while not self._ended.is_set():
            await asyncio.sleep(_LOOK_UP_S / 10)
        return self.wait()

    def cancel(self) -> None:
        """Ends the warm-up after the present shape; compiled shapes stay, the rest is left."""
        self._warm_up.cancel()


def start(
    run: Run,
    buckets: Buckets | Sequence[Shape],
    on_progress: OnProgress | None = None,
    on_ready: OnReady | None = None,
    parallel: int | None = None,
) -> Handle:
    """Warms up in the background, the largest shape first.

    run(shape) makes inputs of that shape and calls the compiled model once; its result is dropped.
    It is called in one thread, for one shape at a time, and more than once for a shape: where a
    program is still being compiled the call ends there (by an exception that passes `except
    Exception`), and is repeated when the program is ready. `run` itself has to set the modes that
    PyTorch keeps per thread and guards on (no_grad, autocast), as requests will.

    on_progress, on_ready: called in the warm-up's thread; on_ready gets the report, and is called
    if every shape is ready. parallel: requests at the compile server at the same time (8). An error
    of a shape is in its row of the report, and the first one in the log; nothing is raised.
    """
    return Handle(run, _shapes(buckets), on_progress, on_ready, parallel)


def run(
    run: Run,
    buckets: Buckets | Sequence[Shape],
    on_progress: OnProgress | None = None,
    parallel: int | None = None,
) -> Report:
    """Like start, in this thread."""
    return _of_shapes(run, _shapes(buckets), on_progress, parallel).run()


def _shapes(buckets: Buckets | Sequence[Shape]) -> Sequence[Shape]:
    return buckets.shapes() if isinstance(buckets, Buckets) else buckets


def _of_shapes(
    run: Run, shapes: Sequence[Shape], on_progress: OnProgress | None, parallel: int | None
) -> WarmUp:
    def call(row: Row) -> None:
        assert row.shape is not None
        run(row.shape)

    return WarmUp(call, [Row(shape) for shape in shapes], on_progress, parallel)


def _tell(listener: Callable[[Any], None], value: Any) -> None:
    try:
        listener(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # includes sys.exit(), which would end the thread silently
        _log.exception("a callback of the warm-up raised; the warm-up goes on")


class ServerLost(Exception):
    """No compile server can be reached: the remaining shapes would only run eagerly."""


class WarmUp:
    """The work of one warm-up. run() is called once; progress() and cancel() may be called from any
    thread.

    call: calls the model for a row. launches: False compiles only, where a call has one graph
    alone.
    """

    def __init__(
        self,
        call: Callable[[Row], Any],
        rows: Sequence[Row],
        on_progress: OnProgress | None = None,
        parallel: int | None = None,
        launches: bool = True,
    ) -> None:
        if parallel is not None and parallel < 1:
            raise ValueError(f"parallel {parallel}: expected at least 1")
        self._call_model = call
        self._launches = launches
        # Entries in whose calls Dynamo broke a graph: the graphs after a break are known only by
        # running.
        self._broken: set[str] = set()
        self._rows = list(rows)
        # The graphs that rows waited for, by the row's identity. A row may end with other graphs:
        # Dynamo traces again where a value that its guards read has changed meanwhile, for example
        # by another model.
        self._asked: dict[int, list[records.GraphRecord]] = {}
        self._on_progress = on_progress
        self._parallel = parallel or PARALLEL
        self._cancelled = threading.Event()
        self._started = time.monotonic()

    def cancel(self) -> None:
        self._cancelled.set()

    def progress(self) -> Progress:
        results = [row.result for row in self._rows]
        done = len(results) - results.count("left")
        left = None
        if done:
            left = (time.monotonic() - self._started) / done * (len(results) - done)
        return Progress(
            done,
            len(results),
            results.count("hit"),
            results.count("compiled"),
            results.count("failed"),
            left,
        )

    def report(self, stopped: str = "") -> Report:
        return Report(self._rows, time.monotonic() - self._started, stopped)

    def run(self) -> Report:
        """Runs until every row is complete, the warm-up is cancelled, or no server can be
        reached."""
        self._started = time.monotonic()
        deferral = deferred.Deferral(self._parallel)
        try:
            with _room_for_shapes(len(self._rows)):
                self._work(deferral)
                if deferral.symbolic:
                    self._settle(deferral)
        except ServerLost as lost:
            return self.report(str(lost))
        finally:
            deferral.close()
        return self.report("it was cancelled" if self._cancelled.is_set() else "")

    def _work(self, deferral: deferred.Deferral) -> None:
        new = deque(self._rows)
        waiting: list[tuple[Future[Any], Row]] = []
        while (new or waiting) and not self._ending():
            if new and len(waiting) < self._parallel:
                ready = [new.popleft()]
            else:
                wait({future for future, _ in waiting}, _LOOK_UP_S, FIRST_COMPLETED)
                ready = [row for future, row in waiting if future.done()]
                waiting = [(future, row) for future, row in waiting if not future.done()]
            for row in ready:
                if self._ending():
                    return
                pending = self._call(row, deferral)
                if pending is not None:
                    waiting.append((pending, row))
                elif self._on_progress is not None:
                    _tell(self._on_progress, self.progress())

    def _settle(self, deferral: deferred.Deferral) -> None:
        """Calls all rows again, from the last one, so that each shape has settled on its graph.

        For a function that was compiled for several sizes, Dynamo may have several graphs that take
        the same shape, and it tries the one that took a call last first. So a later call may meet a
        graph that was not compiled for its shape. After these calls, every shape is taken by the
        graph that takes most shapes, and stays with it."""
        deferral.launches = True
        for row in reversed(self._rows):
            while row.launched and not self._ending():
                with deferred.active(deferral):
                    try:
                        self._call_model(row)
                        break
                    except deferred.Pending as error:
                        wait({error.program}, _LOOK_UP_S)
                    except KeyboardInterrupt:
                        raise
                    except BaseException as error:
                        row.error = f"{type(error).__name__}: {_one_line(error)}"
                        row.result = "failed"
                        break

    def _ending(self) -> bool:
        """True if the warm-up was cancelled, or if Python ends and waits for this thread."""
        return self._cancelled.is_set() or not threading.main_thread().is_alive()

    def _call(self, row: Row, deferral: deferred.Deferral) -> Future[Any] | None:
        """Calls the model for one shape. Returns what the row waits for, or None when it is
        complete."""
        started = time.perf_counter()
        breaks = _graph_breaks()
        calls = service.calls()
        launched = self._launches or row.name in self._broken
        deferral.launches = launched
        with records.collect() as graphs, deferred.active(deferral):
            try:
                self._call_model(row)
                native.torch_module().synchronize()
                launched = row.shape is not None
            except deferred.Pending as error:
                _note(row, graphs)
                self._note_breaks(row, breaks)
                self._asked.setdefault(id(row), []).append(error.record)
                return error.program
            except deferred.NotLaunched:
                self._note_breaks(row, breaks)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # includes sys.exit(): one shape must not end the others
                lost = _no_server(error)
                if lost:
                    raise ServerLost(lost) from error
                row.error = f"{type(error).__name__}: {_one_line(error)}"
        _note(row, graphs)
        if not row.error and not launched and row.name in self._broken:
            return self._call(row, deferral)
        full = service.program_count() >= MEMORY_PROGRAMS  # some calls are not counted then
        if launched and not row.error and not row.graphs and service.calls() == calls and not full:
            row.error = (
                "no compiled graph was called: is the model compiled with hpu_backend, or did "
                "Dynamo give it up (TORCH_LOGS=recompiles)?"
            )
        if row.error:
            row.result = "failed"
        else:
            row.launched = launched
            row.run_ms = (time.perf_counter() - started) * 1e3 if launched else 0.0
            row.compile_ms = row.compile_ms or _compile_ms(self._asked.get(id(row), ()))
            row.result = "compiled" if row.compile_ms else "hit"
        return None

    def _note_breaks(self, row: Row, before: int) -> None:
        if _graph_breaks() != before:
            self._broken.add(row.name)


def _graph_breaks() -> int:
    return sum(counters["graph_break"].values())


def _note(row: Row, graphs: Sequence[records.GraphRecord]) -> None:
    row.graphs += len(graphs)
    for graph in graphs:
        if graph.origin == "eager":
            row.error = row.error or f"{graph.name} runs eagerly: {graph.reason}"
        else:
            row.programs.append(graph.content_key)
    row.compile_ms += _compile_ms(graphs)


def _compile_ms(graphs: Iterable[records.GraphRecord]) -> float:
    return sum(g.compile_ms for g in graphs if g.origin in ("compiled", "coalesced"))


def _no_server(error: BaseException) -> str:
    """Why no server can be reached, if that is the cause of the error; Dynamo wraps errors of a
    backend."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, NoProgram):
            return "" if found.lasting or found.code else str(found)
        found = found.__cause__ or found.__context__
    return ""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500]


@contextlib.contextmanager
def _room_for_shapes(count: int) -> Iterator[None]:
    """Raises Dynamo's limits: it gives a function up after recompile_limit (8) shapes, but here
    every shape is wanted.

    The limits belong to this thread and take effect only when something is compiled.
    """
    config = dynamo_config
    limit = max(config.recompile_limit, count + 8)
    with config.patch(
        recompile_limit=limit,
        accumulated_recompile_limit=max(config.accumulated_recompile_limit, 4 * limit),
    ):
        yield
