"""The ladder to a program: memory, local store, compile; the caller's last step is eager.

Every wait is bounded. When no server can be had the ladder stays shut for a while, so that a
broken installation costs one wait and one warning, not one per graph.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import native
from .records import GraphRecord

# A server that could not be had is asked for again after this time.
_RETRY_AFTER_S = 30.0
_START_TIMEOUT_S = 20.0
_IDLE_TIMEOUT_S = 900
_MEMORY_PROGRAMS = 512

Progress = Callable[[str, int, int], None]


class NoProgram(Exception):
    """The ladder ended without a program; the text says why.

    lasting: the same graph will fail again (unsupported), in this process and the next.
    """

    def __init__(self, reason: str, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


@dataclass(frozen=True)
class Loaded:
    program: Any  # _torch.Program
    recipes: int


class Service:
    """Connection to the daemon and the programs of this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._client: Any = None
        self._build_id = ""
        self._down_until = 0.0
        self._down_reason = ""
        # Guarded by _lock; least recently used first.
        self._programs: OrderedDict[bytes, Loaded] = OrderedDict()
        self._failed: dict[bytes, str] = {}

    def forked(self) -> bool:
        """True in a child of the process that made this object: gRPC and the device are gone."""
        return os.getpid() != self._pid

    def connect(self) -> Any:
        """The client; starts the daemon if needed. NoProgram if there is none."""
        if self.forked():
            raise NoProgram("this process was forked after the backend was used", lasting=False)
        with self._lock:
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

        What fails here is told by the first request that needs the server.
        """

        def connect() -> None:
            with contextlib.suppress(NoProgram):
                self.connect()

        # Not a daemon thread: one that comes back from C++ to an interpreter that is gone crashes.
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
        """Forgets connection, programs and failures; for tests and after a cache change."""
        if self.forked():
            self._lock = threading.RLock()  # whoever held it may not exist here
        with self._lock:
            self._pid = os.getpid()
            self._client = None
            self._down_until = 0.0
            self._programs.clear()
            self._failed.clear()

    # --- programs ----------------------------------------------------------------------------

    def remembered(self, key: bytes) -> Loaded | None:
        """A program of this process; NoProgram if the key is known to have none."""
        with self._lock:
            reason = self._failed.get(key)
            if reason is not None:
                raise NoProgram(reason, lasting=True)
            loaded = self._programs.get(key)
            if loaded is not None:
                self._programs.move_to_end(key)
            return loaded

    def fetch(self, key: bytes, record: GraphRecord) -> Loaded | None:
        """A program of the store; None on a miss."""
        started = time.perf_counter()
        found = self._call(lambda client: client.get(key))
        record.fetch_ms = (time.perf_counter() - started) * 1e3
        if found is None:
            return None
        record.origin = str(found.origin)
        return self._load(key, found, record)

    def compile(
        self,
        key: bytes,
        graph: bytes,
        options: Mapping[str, str],
        factors: list[tuple[str, str]],
        record: GraphRecord,
        progress: Progress | None,
        timeout_s: float,
    ) -> Loaded:
        """Compiles, or waits for the one compilation of this key that is under way."""
        device = native.torch_module()
        found = self._call(
            lambda client: client.compile(
                key,
                graph,
                dict(options),
                factors,
                device.device_kind(),
                device.isa_level(),
                progress,
                timeout_s,
            )
        )
        record.origin = str(found.origin)
        record.compile_ms = float(found.compile_ms)
        return self._load(key, found, record)

    def _call(self, request: Callable[[Any], Any]) -> Any:
        """One request; a lost server is replaced once."""
        client_module = native.client_module()
        for attempt in (0, 1):
            client = self.connect()
            try:
                return request(client)
            except client_module.ServerUnavailable as error:
                self._drop_client()
                if attempt == 1 or error.code != "UNAVAILABLE":
                    with self._lock:
                        self._mark_down(f"the compile server was lost: {error}")
                    raise NoProgram(str(error), lasting=False) from error
            except client_module.CompileError as error:
                raise NoProgram(str(error), lasting=error.code in _LASTING_CODES) from error
        raise AssertionError("not reached")

    def _load(self, key: bytes, found: Any, record: GraphRecord) -> Loaded:
        started = time.perf_counter()
        try:
            program = native.torch_module().Program(found.program, found.recipes)
        except (RuntimeError, ValueError) as error:
            raise NoProgram(f"the program cannot be loaded: {error}", lasting=False) from error
        record.load_ms = (time.perf_counter() - started) * 1e3
        loaded = Loaded(program, len(found.recipes))
        with self._lock:
            self._programs[key] = loaded
            while len(self._programs) > _MEMORY_PROGRAMS:
                self._programs.popitem(last=False)
        return loaded

    def remember_failure(self, key: bytes, reason: str) -> None:
        with self._lock:
            self._failed[key] = reason


# Status codes that the same graph will meet again.
_LASTING_CODES = frozenset({"INVALID_ARGUMENT", "UNIMPLEMENTED"})


def running_socket() -> str | None:
    """Socket of the user's daemon if there is one; starts nothing."""
    path = server_paths()["socket"]
    return path if os.path.exists(path) else None


def server_paths() -> dict[str, str]:
    """Where the user's daemon has its socket, log and store, whether it runs or not."""
    return dict(native.client_module().server_paths(native.cache_dir()))


def _server_log_level() -> int:
    text = os.environ.get("HPU_SERVER_LOG_LEVEL", "2")
    if text not in ("0", "1", "2", "3", "4", "5", "6"):
        raise ValueError(
            f"HPU_SERVER_LOG_LEVEL={text} is not a number from 0 (trace) to 6 (off); "
            "unset it, or give 2 (info)"
        )
    return int(text)


def open_client() -> tuple[Any, str]:
    """A client of the user's daemon, started if needed, and the daemon's build id."""
    client_module = native.client_module()
    socket = client_module.ensure_server(
        server_binary=native.server_binary(),
        cache_dir=native.cache_dir(),
        log_level=_server_log_level(),
        start_timeout_s=_START_TIMEOUT_S,
        idle_timeout_s=_IDLE_TIMEOUT_S,
    )
    client = client_module.CompileClient(socket)
    return client, str(client.hello()["build_id"])


service = Service()
