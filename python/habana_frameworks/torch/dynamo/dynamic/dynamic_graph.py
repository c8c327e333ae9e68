"""A graph whose sizes change: one program per concrete shape, within bounds.

A shape's program is made at its first call, or ahead of it (size_forecast.py). Three things are
bounded (class Bounds): the programs kept, the bytes of their recipes, and the seconds that the
graph may spend compiling in this process. The least recently called programs go first. A graph that
has spent its seconds uses the programs that stores have and runs other shapes eagerly.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..programs import deferred
from ..programs.binding import Compiled, warn_once
from ..programs.explanation import FrozenMiss
from ..programs.request import Request
from ..records import records
from ..records.records import GraphRecord
from .size_forecast import SizeForecast
from .symbols import GraphSymbols, Sizes

# TORCH_LOGS and torch._logging.set_logs(modules=...) take the name of a package.
_log = logging.getLogger("habana_frameworks.torch.dynamo")

# Makes the callable for one concrete shape. The record is filled, and listed in the report.
CompileShape = Callable[[Request, Sequence[Any], GraphRecord], Compiled]

# When this many sizes in a row are each larger by one than the last, they look like a cache that
# grows by the token.
_GROWING = 8


@dataclass(frozen=True)
class Bounds:
    """The bounds of one graph in one process: options dynamic_programs, _program_mb and
    _compile_s."""

    programs: int
    bytes: int
    compile_s: float


@dataclass
class _Shape:
    call: Compiled
    record: GraphRecord  # a warm-up fills it in after the shape is here
    ahead: bool  # made ahead, and not called yet
    warm_up: bool = False  # a warm-up made it

    def compile_s(self) -> float:
        """The seconds that count against the bound."""
        return 0.0 if self.warm_up else self.record.compile_s()


class DynamicGraph:
    """A callable with the arguments of the Dynamo graph. Thread-safe."""

    def __init__(
        self, request: Request, compile_shape: CompileShape, forget: Callable[[str], None]
    ) -> None:
        """forget: drops what the process remembers of a front-end key."""
        settings = request.settings
        self._request = request
        self._compile_shape = compile_shape
        self._forget = forget
        self._bounds = Bounds(
            max(1, int(settings["dynamic_programs"])),
            int(settings["dynamic_program_mb"]) * 2**20,
            float(settings["dynamic_compile_s"]),
        )
        warm_up = deferred.current()
        if warm_up is not None:
            warm_up.symbolic = True
        self._symbols = GraphSymbols(request.inputs.placeholders)
        self._lock = threading.Lock()
        # Guarded by _lock; least recently called first.
        self._by_shape: OrderedDict[tuple[Any, ...], _Shape] = OrderedDict()
        # seconds of shapes that are not kept, by whether they were made ahead
        self._dropped_s = {True: 0.0, False: 0.0}
        self._forecast = SizeForecast(int(settings["compile_ahead"]))
        self._worker: threading.Thread | None = None

    def __call__(self, *args: Any) -> Any:
        shape = _shape_of(args)
        with self._lock:
            found = self._by_shape.get(shape)
            if found is not None:
                self._by_shape.move_to_end(shape)
                was_ahead, found.ahead = found.ahead, False
        if found is None:
            call = self._make(args, shape)
            self._look_ahead(args)
            return call(*args)
        if was_ahead:
            self._look_ahead(args)
        return found.call(*args)

    def _make(self, args: Sequence[Any], shape: tuple[Any, ...]) -> Compiled:
        with self._lock:
            spent = self._spent_s(ahead=False) >= self._bounds.compile_s
        if not spent:
            return self._compile(self._request, args, shape, ahead=False)
        warn_once(
            f"{self._request.name}: its sizes took {self._bounds.compile_s:.0f} s of compilation "
            "(option dynamic_compile_s); sizes that no store has run eagerly from now on. Pad "
            "inputs to a few sizes: habana_frameworks.torch.warmup.Buckets"
        )
        frozen = replace(self._request.with_settings(frozen=True), spent=True)
        try:
            return self._compile(frozen, args, shape, ahead=False)
        except FrozenMiss:
            if self._request.settings["frozen"]:
                raise
            return self._keep(shape, self._request.module.forward, self._request.new_record())

    def _compile(
        self, request: Request, args: Sequence[Any], shape: tuple[Any, ...], ahead: bool
    ) -> Compiled:
        record = request.new_record()
        record.ahead = ahead
        call = self._compile_shape(request, args, record)
        if ahead and all(program.origin == "eager" for program in record.programs()):
            # The reason may be a passing one: a call with that size asks again.
            with self._lock:
                self._dropped_s[ahead] += record.compile_s()
            return call
        return self._keep(shape, call, record)

    def _keep(self, shape: tuple[Any, ...], call: Compiled, record: GraphRecord) -> Compiled:
        made = _Shape(call, record, record.ahead, deferred.current() is not None)
        with self._lock:
            if shape in self._by_shape:  # another thread was first
                self._dropped_s[record.ahead] += made.compile_s()
                return call
            self._by_shape[shape] = made
            dropped = self._drop_cold()
        for cold in dropped:
            records.count_dropped_shape()
            for program in cold.record.programs():
                self._forget(program.front_end_key)
        return call

    def add(self, args: Sequence[Any], call: Compiled, record: GraphRecord) -> None:
        """Adds a shape that is already compiled."""
        self._keep(_shape_of(args), call, record)

    def _spent_s(self, ahead: bool) -> float:
        """The seconds of compilation. _lock is held. A part may be compiled long after its shape
        was kept (a backward, at its first call), so the records are read at every call of this
        function."""
        kept = (s for s in self._by_shape.values() if s.record.ahead == ahead)
        return self._dropped_s[ahead] + sum(s.compile_s() for s in kept)

    def _drop_cold(self) -> list[_Shape]:
        """Removes and returns the shapes beyond the bounds. _lock is held; the newest shape stays,
        whatever its size."""
        dropped = []
        size = sum(_program_bytes(shape.record) for shape in self._by_shape.values())
        while len(self._by_shape) > 1 and (
            len(self._by_shape) > self._bounds.programs or size > self._bounds.bytes
        ):
            _, cold = self._by_shape.popitem(last=False)
            size -= _program_bytes(cold.record)
            self._dropped_s[cold.record.ahead] += cold.compile_s()
            dropped.append(cold)
        return dropped

    # --- ahead -------------------------------------------------------------------------------

    def _look_ahead(self, args: Sequence[Any]) -> None:
        """Notes a size that was met for the first time, and begins to make likely ones ahead."""
        # A warm-up itself decides which sizes are wanted.
        if not self._symbols.known or deferred.current() is not None:
            return
        with self._lock:
            self._forecast.met(self._symbols.read(args))
            growing = self._forecast.growing
            # Guessed sizes take no more time than requested ones did, so there are none where
            # everything is stored.
            paid = self._spent_s(ahead=True) < self._spent_s(ahead=False)
            wanted = paid and self._forecast.pending(self._symbols.allowed)
            if wanted and self._worker is None:
                like = [_without_history(a) for a in args]
                state = _ThreadState()
                self._worker = threading.Thread(
                    target=self._run_ahead, args=(like, state), name="hpu-compile-ahead"
                )
                try:
                    self._worker.start()
                except RuntimeError:  # no more threads can be started, so nothing is made ahead
                    self._worker = None
        if growing == _GROWING:
            warn_once(
                f"{self._request.name}: a size grows by one with every call ({growing} so far), "
                "and each is a program of its own. For generation take a cache of fixed size "
                '(transformers: cache_implementation="static"), or pad to a few sizes: '
                "habana_frameworks.torch.warmup.Buckets"
            )

    def _run_ahead(self, like: list[Any], state: _ThreadState) -> None:
        """Runs in a thread of its own, until nothing is left or the process ends."""
        request = self._request.with_settings(compile_priority="warm-up", show_progress="off")
        with state.here():
            while True:
                with self._lock:
                    sizes = self._next_ahead()
                    if sizes is None:
                        self._worker = None
                        return
                try:
                    self._make_ahead(request, self._symbols.arguments(like, sizes))
                except Exception:
                    # The error is reported when a call has that size, if it occurs again.
                    _log.debug("%s is not made ahead", self._request.name, exc_info=True)

    def _next_ahead(self) -> Sizes | None:
        """The next size to make ahead. _lock is held."""
        asked_s = self._spent_s(ahead=False)
        over = self._spent_s(ahead=True) >= asked_s or asked_s >= self._bounds.compile_s
        if over or not threading.main_thread().is_alive():
            return None
        return self._forecast.take(self._symbols.allowed)

    def _make_ahead(self, request: Request, args: list[Any]) -> None:
        shape = _shape_of(args)
        with self._lock:
            if shape in self._by_shape:
                return
        self._compile(request, args, shape, ahead=True)


def _program_bytes(record: GraphRecord) -> int:
    return sum(program.program_bytes for program in record.programs())


def _shape_of(args: Sequence[Any]) -> tuple[Any, ...]:
    """The properties of a call's arguments that a program depends on."""
    return tuple(
        (*a.shape, -1, *a.stride(), a.dtype)
        if isinstance(a, torch.Tensor)
        else (type(a), a.hex() if isinstance(a, float) else a)  # 0.0 and -0.0 differ, NaNs do not
        for a in args
    )


def _without_history(value: Any) -> Any:
    """The argument without the autograd graph that made it."""
    if not isinstance(value, torch.Tensor) or value.is_leaf:
        return value
    return value.detach().requires_grad_(value.requires_grad)


class _ThreadState:
    """The parts of PyTorch's thread state that a capture reads."""

    def __init__(self) -> None:
        self._grad = torch.is_grad_enabled()
        self._inference = torch.is_inference_mode_enabled()
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("hpu", "cpu")
        ]

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Sets the same state in this thread, which has no other use."""
        for kind, enabled, dtype in self._autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        with torch.inference_mode(self._inference), torch.set_grad_enabled(self._grad):
            yield
