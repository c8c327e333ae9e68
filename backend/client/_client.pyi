"""Client of the compile server: graphs, keys, programs. C++; never links torch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

class CompileError(RuntimeError):
    """The compiler or its server said no."""

    code: str
    """Canonical name of the reason: "UNIMPLEMENTED", "INVALID_ARGUMENT", "INTERNAL", "DATA_LOSS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", ..."""

class ServerUnavailable(CompileError):
    """No server can be reached or started, it did not answer in time, or this process was forked
    from one that had used it."""

class KeyBuilder:
    """Front-end keys: SHA-256 over named fields in order (docs/cache_key.md)."""

    def __init__(self) -> None: ...
    def field(self, name: str, value: str | int | bytes) -> None: ...
    def factors(self) -> list[tuple[str, str]]:
        """The fields as text, for explaining misses."""
    def digest(self) -> bytes:
        """32 bytes."""

class BlobView:
    """Read-only bytes, shared with the client's memory; memoryview() and bytes() work on it."""

    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class LoadedProgram:
    """A program with its recipes; signature and digests were verified."""

    @property
    def program(self) -> BlobView: ...
    @property
    def recipes(self) -> list[BlobView]: ...
    @property
    def origin(self) -> str:
        """ "compiled" (by this call), "coalesced" (by another call at the same time) or "store"."""
    @property
    def compile_ms(self) -> float:
        """What compiling took when it was done."""
    @property
    def fetch_ms(self) -> float:
        """What this call took."""
    @property
    def manifest(self) -> dict[str, Any]:
        """key (the content key), program, recipes, compiler_build_id, device_kind, isa_level,
        compile_ms, created, factors (of the content key)."""

class CompileClient:
    """A connection to a compile server, opened by the first call that needs it.

    Calls release the GIL while they wait, have deadlines, and end at once on Ctrl-C. They raise
    ServerUnavailable or CompileError.
    """

    def __init__(
        self,
        socket_path: str,
        store_public_key_path: str | None = None,
        call_timeout_s: float = 10.0,
    ) -> None:
        """store_public_key_path: the trusted signer; by default "<socket>.pub", which the server
        writes into its folder of mode 0700."""
    def hello(self) -> dict[str, Any]:
        """build_id, protocol_version, pid; upstream, config_file: started with, "" = none."""
    def get(self, front_end_key: bytes) -> LoadedProgram | None:
        """The stored program that this tenant's alias names; None is a miss."""
    def get_content(self, content_key: bytes) -> LoadedProgram | None:
        """The stored program of this content key; None is a miss."""
    def compile(
        self,
        graph: bytes,
        options: Mapping[str, str],
        device_kind: str,
        isa_level: str,
        front_end: tuple[bytes, Sequence[tuple[str, str]], str] | None = None,
        progress: Callable[[str, int, int], object] | None = None,
        timeout_s: float = ...,
        skip_cache_lookup: bool = False,
    ) -> LoadedProgram:
        """Compiles, or waits for the one compilation of this content that is under way, or answers
        from the store; skip_cache_lookup: compiles anew in place of what is stored. front_end (key,
        factors, label): by what get() will find the program. progress(stage, done, total); stage
        "queued" has the position in `done`."""
    def stats(self) -> dict[str, int]: ...
    def list(self, limit: int = 0) -> list[dict[str, Any]]:
        """Manifests in the store, newest first; 0 = all. Each with `aliases` of this tenant, oldest
        first: front_end_key, label, created, factors; and `hits`: how often the server handed the
        program out since it started."""
    def shutdown(self, reason: str = "") -> None: ...

def server_process(socket_path: str) -> tuple[int, bool] | None:
    """(pid, whether it is stopping) of the server whose socket this is, or was; None = none."""

def ensure_server(
    server_binary: str,
    cache_dir: str,
    log_level: int = 2,
    upstream: str = "",
    config_file: str = "",
    start_timeout_s: float = 20.0,
    idle_timeout_s: int = 900,
    compile_timeout_s: float = ...,
) -> str:
    """Path of the socket of a running server of exactly this compiler; starts one if need be, and
    replaces one of another build, or one that has no upstream, or no configuration file, where one
    is given here."""

def compile_servers(addresses: str) -> str:
    """Addresses of compile servers as they are understood, separated by commas; CompileError
    INVALID_ARGUMENT with what is wrong."""

def server_paths(cache_dir: str) -> dict[str, str]:
    """Where ensure_server puts "socket", "log" and "store"; starts nothing."""
