"""The fallback chain to a program: memory, local store, compile. The caller's last step is eager.

Every wait is bounded. When no server can be reached, the chain stays closed for a while, so that a
broken installation costs one wait and one warning, not one per graph.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ... import native
from ..capture.wire import CaptureError
from ..records.records import GraphRecord
from .local_daemon import open_client, remedy

# A server that could not be reached is asked again after this time.
_RETRY_AFTER_S = 30.0
MEMORY_PROGRAMS = 512

_log = logging.getLogger("habana_frameworks.torch.dynamo")

Progress = Callable[[str, int, int], None]


class NoProgram(Exception):
    """The fallback chain ended without a program; the text says why.

    lasting: the same graph will fail again, in this process and the next, because it is not
    supported.
    code: the status code that the server answered, "" if it was not asked.
    """

    def __init__(self, reason: str, lasting: bool, code: str = "") -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.code = code


class UnusableProgram(Exception):
    """The stored program arrived damaged or cannot be loaded; it has to be compiled anew."""


@dataclass(frozen=True)
class FrontEndKey:
    """The key by which this process knows a graph before it has captured it (docs/cache_key.md)."""

    key: bytes
    factors: list[tuple[str, str]]
    label: str  # for people: graph and module


@dataclass(frozen=True)
class CompileJob:
    """A request to the compile server."""

    graph: bytes  # a captured graph
    options: Mapping[str, str]  # only the options that are part of the key
    front_end: FrontEndKey | None
    timeout_s: float
    keep: bool = True  # the service remembers the program under its front-end key
    warm_up: bool = False  # nobody waits for it, so it comes after requests that somebody waits for
    frozen: bool = False  # the program may come from a store, but must not be compiled


@dataclass(frozen=True)
class Loaded:
    program: Any  # _torch.Program
    recipes: int
    content_key: str
    content_factors: list[tuple[str, str]]
    bytes: int  # size of the recipes


class Service:
    """Connection to the daemon and the programs of this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._asked = False  # whether a connection was ever begun
        self._client: Any = None
        self._build_id = ""
        self._down_until = 0.0
        self._down_reason = ""
        # Guarded by _lock; least recently used first.
        self._programs: OrderedDict[bytes, Loaded] = OrderedDict()
        self._failed: dict[bytes, Callable[[], CaptureError | NoProgram]] = {}

    def forked(self) -> bool:
        """True in a child of a process that has begun a connection, where gRPC does not work. A
        child whose parent only imported the package is like any other process."""
        if os.getpid() == self._pid:
            return False
        if not self._asked:
            self._pid = os.getpid()
            # the thread that held the old lock may not exist in this process
            self._lock = threading.RLock()
        return self._asked

    def connect(self) -> Any:
        """The client; starts the daemon if needed. Raises NoProgram if there is no server."""
        if self.forked():
            raise NoProgram("this process was forked after the backend was used", lasting=False)
        with self._lock:
            self._asked = True
            if self._client is not None:
                return self._client
            if time.monotonic() < self._down_until:
                raise NoProgram(self._down_reason, lasting=False)
            try:
                self._client, self._build_id = open_client()
            except (OSError, RuntimeError, ValueError) as error:
                self._mark_down(f"no compile server: {error}")
                raise NoProgram(self._down_reason, lasting=False) from error
            return self._client

    def connect_early(self) -> None:
        """Connects, and starts the daemon if needed, while Dynamo still traces the first graph.

        A failure here is reported by the first request that needs the server.
        """

        def connect() -> None:
            with contextlib.suppress(NoProgram):
                self.connect()

        if self.forked():
            return
        self._asked = True
        # This is not a daemon thread: a daemon thread that returns from C++ after the interpreter
        # is gone crashes.
        threading.Thread(target=connect, name="hpu-connect").start()

    def _mark_down(self, reason: str) -> None:
        self._client = None
        self._down_reason = reason
        self._down_until = time.monotonic() + _RETRY_AFTER_S

    def _drop_client(self) -> None:
        with self._lock:
            self._client = None

    @property
    def build_id(self) -> str:
        self.connect()
        return self._build_id

    def reset(self) -> None:
        """Forgets connection, programs and failures, for tests and after the cache has changed."""
        if self.forked():
            # the thread that held the old lock may not exist in this process
            self._lock = threading.RLock()
        with self._lock:
            self._pid = os.getpid()
            self._asked = False
            self._client = None
            self._down_until = 0.0
            self.forget_programs()

    # --- programs ----------------------------------------------------------------------------

    def remembered(self, key: bytes) -> Loaded | None:
        """The program that this process has for the key. Raises CaptureError or NoProgram if the
        key is known to have none."""
        with self._lock:
            failed = self._failed.get(key)
            if failed is not None:
                raise failed()
            loaded = self._programs.get(key)
            if loaded is not None:
                self._programs.move_to_end(key)
            return loaded

    def program_count(self) -> int:
        """The number of programs that this process keeps loaded."""
        with self._lock:
            return len(self._programs)

    def calls(self) -> int:
        """The number of calls so far of the programs that this process keeps loaded."""
        with self._lock:
            return sum(int(loaded.program.call_count) for loaded in self._programs.values())

    def forget_programs(self) -> None:
        """Graphs and eager calls that are captured from now on find nothing in memory; compiled
        functions keep their programs."""
        native.torch_module().forget_call_programs()
        with self._lock:
            self._programs.clear()
            self._failed.clear()

    def forget(self, key: str) -> None:
        """Drops the program of a front-end key (hex; "" for none) from memory. A compiled function
        that calls the program keeps it."""
        with self._lock:
            self._programs.pop(bytes.fromhex(key), None)

    def fetch(self, key: bytes, record: GraphRecord, keep: bool = True) -> Loaded | None:
        """The stored program with this front-end key; None on a miss. Raises UnusableProgram.
        keep: remembered() returns it from then on."""
        started = time.perf_counter()
        found = self._call(lambda client: client.get(key))
        record.fetch_ms = (time.perf_counter() - started) * 1e3
        return None if found is None else self._load(key if keep else None, found, record)

    def compile(self, job: CompileJob, record: GraphRecord, progress: Progress | None) -> Loaded:
        """Compiles the graph, or waits for the compilation of the same content that is already
        under way.

        A program that is unusable, here or in an earlier fetch (record.unusable), is compiled anew
        once, and the new program replaces the stored one.
        """
        started = time.perf_counter()
        try:
            return self._compile_usable(job, record, progress)
        finally:
            record.request_ms = (time.perf_counter() - started) * 1e3 - record.load_ms

    def _compile_usable(
        self, job: CompileJob, record: GraphRecord, progress: Progress | None
    ) -> Loaded:
        if not record.unusable:
            try:
                return self._compile(job, record, progress, skip_cache_lookup=False)
            except UnusableProgram as error:
                record.unusable = str(error)
        _log.warning("%s is compiled anew: %s", record.name, record.unusable)
        try:
            return self._compile(job, record, progress, skip_cache_lookup=True)
        except UnusableProgram as error:
            raise NoProgram(f"compiled anew, and again {error}", lasting=False) from error

    def _compile(
        self,
        job: CompileJob,
        record: GraphRecord,
        progress: Progress | None,
        skip_cache_lookup: bool,
    ) -> Loaded:
        device = native.torch_module()
        front_end = job.front_end
        found = self._call(
            lambda client: client.compile(
                job.graph,
                dict(job.options),
                device.device_kind(),
                device.isa_level(),
                (front_end.key, front_end.factors, front_end.label) if front_end else None,
                progress,
                job.timeout_s,
                skip_cache_lookup,
                job.warm_up,
                job.frozen,
            )
        )
        record.compile_ms = float(found.compile_ms)
        return self._load(front_end.key if front_end and job.keep else None, found, record)

    def _look(self, request: Callable[[Any], Any]) -> Any:
        """Like _call, for a caller that only looks: every error is a NoProgram."""
        try:
            return self._call(request)
        except UnusableProgram as error:
            raise NoProgram(str(error), lasting=False) from error

    def stored_program(self, key: bytes) -> Any:
        """The LoadedProgram (_client.pyi) that a front-end key names, which is not loaded yet; None
        on a miss. Raises NoProgram if there is no server, or if the stored program is damaged."""
        return self._look(lambda client: client.get(key))

    def import_program(
        self,
        signed_manifest: tuple[bytes, bytes, bytes],
        blobs: Sequence[bytes],
        signed_aliases: Sequence[tuple[bytes, bytes, bytes]],
        timeout_s: float,
    ) -> None:
        """Files an exported program. Raises NoProgram, with the reason, if the daemon does not
        accept it.

        A failure to file a program says nothing about the server, so the fallback chain stays as it
        is.
        """
        try:
            self.connect().import_program(signed_manifest, blobs, signed_aliases, timeout_s)
        except native.client_module().CompileError as error:
            raise NoProgram(str(error), lasting=False) from error

    def stored_keys(self) -> dict[str, list[tuple[str, str]]]:
        """The front-end keys of this user that the store has, and those of the servers that the
        daemon asks, with the factors of each key. Raises NoProgram if there is no server."""
        programs = self._look(lambda client: list(client.list(upstream=True)))
        return {
            str(alias["front_end_key"]): [(str(n), str(v)) for n, v in alias["factors"]]
            for program in programs
            for alias in program["aliases"]
        }

    def _call(self, request: Callable[[Any], Any]) -> Any:
        """Makes one request; a lost server is replaced once.

        Only the loss of the server closes the fallback chain: an answer of the server or of the
        compiler is about this request alone.
        """
        client_module = native.client_module()
        for attempt in (0, 1):
            client = self.connect()
            try:
                return request(client)
            except client_module.ServerUnavailable as error:
                self._drop_client()
                if attempt == 1 or error.code != "UNAVAILABLE":
                    with self._lock:
                        self._mark_down(f"no compile server: {error}{remedy(error)}")
                    raise NoProgram(self._down_reason, lasting=False) from error
            except client_module.CompileError as error:
                if error.code in _UNUSABLE_CODES:
                    raise UnusableProgram(f"it arrived damaged: {error}") from error
                lasting = error.code in _LASTING_CODES
                raise NoProgram(str(error), lasting, error.code) from error
        raise AssertionError("not reached")

    def _load(self, key: bytes | None, found: Any, record: GraphRecord) -> Loaded:
        started = time.perf_counter()
        manifest = found.manifest
        record.content_key = str(manifest["key"])
        try:
            program = native.torch_module().Program(found.program, found.recipes, record.name)
        except torch.OutOfMemoryError as error:
            raise NoProgram(f"no memory to load the program: {error}", lasting=False) from error
        except (RuntimeError, ValueError) as error:
            raise UnusableProgram(f"it cannot be loaded: {error}") from error
        record.origin = str(found.origin)
        record.load_ms = (time.perf_counter() - started) * 1e3
        factors = [(str(name), str(value)) for name, value in manifest["factors"]]
        size = sum(memoryview(recipe).nbytes for recipe in found.recipes)
        loaded = Loaded(program, len(found.recipes), record.content_key, factors, size)
        if key is None:
            return loaded
        with self._lock:
            self._programs[key] = loaded
            while len(self._programs) > MEMORY_PROGRAMS:
                self._programs.popitem(last=False)
        return loaded

    def remember_failure(self, key: bytes, error: CaptureError | NoProgram) -> None:
        # The exception is made anew each time, because an exception keeps the frames that it went
        # through, with everything that they hold.
        text = str(error)
        again: Callable[[], CaptureError | NoProgram]
        again = functools.partial(CaptureError, text)
        if isinstance(error, NoProgram):
            again = functools.partial(NoProgram, text, error.lasting, error.code)
        with self._lock:
            self._failed[key] = again


# Status codes that the same graph will get again.
_LASTING_CODES = frozenset({"INVALID_ARGUMENT", "UNIMPLEMENTED"})
# Status codes of an answer that does not match its key, its digests or its signer.
_UNUSABLE_CODES = frozenset({"DATA_LOSS", "PERMISSION_DENIED"})


service = Service()
