"""Graphs whose programs are still being compiled: how a warm-up has many of them compiled at once.

Dynamo holds a lock while a backend works, so threads that call compiled functions have their
graphs compiled one after the other. In the thread of a warm-up the hook therefore only hands the
captured graph to the server. The first call of such a graph raises Pending through the user's code
to the warm-up, which goes on with other shapes and calls again when the program is there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from ..records.records import GraphRecord
from .service import Loaded, NoProgram

Compiled = Callable[..., Any]


class Pending(BaseException):
    """The program is not there yet; `record` will say what became of it. This is not an Exception,
    because user code must not catch it."""

    def __init__(self, program: Future[Loaded], record: GraphRecord) -> None:
        super().__init__("the program is still being compiled")
        self.program = program
        self.record = record


class NotLaunched(BaseException):
    """The program is there, and the warm-up does not launch it. This is not an Exception, for the
    same reason as Pending."""


class Deferral:
    """Requests of one warm-up to the server, `parallel` at a time. Used in one thread.

    launches: False ends a call at its first new graph, by NotLaunched.
    symbolic: set once Dynamo makes a graph that takes more than one shape.
    """

    def __init__(self, parallel: int) -> None:
        self.launches = True
        self.symbolic = False
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="hpu-warm-up")

    def submit(self, compile: Callable[[], Loaded]) -> Future[Loaded]:
        return self._pool.submit(compile)

    def close(self) -> None:
        """Drops the requests that have not begun; those that have end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def there(loaded: Loaded) -> Future[Loaded]:
    """A future for a program that need not be waited for."""
    found: Future[Loaded] = Future()
    found.set_result(loaded)
    return found


_here = threading.local()


def current() -> Deferral | None:
    """The warm-up that this thread works for; None in other threads."""
    found: Deferral | None = getattr(_here, "deferral", None)
    return found


@contextlib.contextmanager
def active(deferral: Deferral) -> Iterator[None]:
    """Defers the graphs that this thread compiles in the block."""
    _here.deferral = deferral
    try:
        yield
    finally:
        _here.deferral = None


class Deferred:
    """A compiled graph whose program comes later. Thread-safe.

    bind: makes the callable from the result of the future; it raises what the hook would raise.
    again: compiles the graph for the given arguments where the future ended without a program for a
    passing reason. record: the record of the graph.
    """

    # This class has no __dict__. Dynamo wraps a callable with functools.wraps, which copies the
    # callable's __dict__; the copy would keep `bind`, and the example inputs in it, for as long as
    # the graph lives.
    __slots__ = ("_again", "_bind", "_compiled", "_lock", "_program", "_record")

    def __init__(
        self,
        program: Future[Loaded],
        bind: Callable[[Callable[[], Loaded]], Compiled],
        again: Callable[[Sequence[Any]], Compiled],
        record: GraphRecord,
    ) -> None:
        self._record = record
        self._lock = threading.Lock()
        # Guarded by _lock. It becomes None once _compiled is set, which no lock guards.
        self._program: Future[Loaded] | None = program
        self._bind: Callable[[Callable[[], Loaded]], Compiled] | None = bind
        self._again: Callable[[Sequence[Any]], Compiled] | None = again
        self._compiled: Compiled | None = None

    def __call__(self, *args: Any) -> Any:
        compiled = self._compiled
        if compiled is None:
            compiled = self._ready(args)
            here = current()
            if here is not None and not here.launches:
                raise NotLaunched
        return compiled(*args)

    def _ready(self, args: Sequence[Any]) -> Compiled:
        program = self._program
        if program is not None and not program.done() and current() is not None:
            raise Pending(program, self._record)
        with self._lock:
            if self._compiled is not None:
                return self._compiled
            assert self._bind is not None
            assert self._again is not None
            if self._program is None:
                found = self._again(args)
            else:
                program = self._program
                try:
                    # The warm-up's own thread does not wait here, other threads do; the request has
                    # its own time limit.
                    found = self._bind(program.result)
                except (NoProgram, CancelledError) as error:
                    self._program = None
                    if isinstance(error, NoProgram) and current() is not None:
                        raise
                    found = self._again(args)
            if isinstance(found, Deferred):
                self._program, self._bind = found._program, found._bind
            else:
                self._compiled = found
                self._program = self._bind = self._again = None
                return found
        return self._ready(args)
