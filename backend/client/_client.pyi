"""Client of the compile server: graphs, keys, programs. C++; never links torch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

class CompileError(RuntimeError):
    """The compiler or its server refused."""

    code: str
    """Canonical name of the reason: "UNIMPLEMENTED", "INVALID_ARGUMENT", "INTERNAL", "DATA_LOSS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", ..."""

class ServerUnavailable(CompileError):
    """No server can be reached or started, the server did not answer in time, or this process was
    forked from one that had used it."""

class KeyBuilder:
    """Front-end keys: SHA-256 over named fields in order (docs/cache_key.md)."""

    def __init__(self) -> None: ...
    def field(self, name: str, value: str | int | bytes) -> None: ...
    def factors(self) -> list[tuple[str, str]]:
        """The fields as text, which explains misses."""
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
        """How long compiling took when it was done."""
    @property
    def fetch_ms(self) -> float:
        """How long this call took."""
    @property
    def signed_manifest(self) -> tuple[bytes, bytes, bytes]:
        """Record, signature and public key, as the signer made them."""
    @property
    def signed_alias(self) -> tuple[bytes, bytes, bytes] | None:
        """The same for the alias by which it was asked for; None if it was asked for by its content
        key."""
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
        """store_public_key_path: the trusted signer, by default "<socket>.pub", which the server
        writes into its folder of mode 0700."""
    def hello(self) -> dict[str, Any]:
        """build_id, protocol_version, pid; upstream, config_file: what it was started with, "" =
        none; memory_only: no program that it compiles outlives the server."""
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
        warm_up: bool = False,
        frozen: bool = False,
    ) -> LoadedProgram:
        """Compiles, or waits for the running compilation of this content, or answers from the
        store. skip_cache_lookup: compiles again and replaces what is stored. front_end (key,
        factors, label): the name by which get() will find the program. progress(stage, done,
        total): with stage "queued", `done` is the position. warm_up: nobody waits for it, so
        requests that somebody waits for go first. frozen: raises CompileError FAILED_PRECONDITION
        and does not compile."""
    def stats(self) -> dict[str, int]: ...
    def list(self, limit: int = 0, upstream: bool = False) -> Iterator[dict[str, Any]]:
        """Manifests in the store, newest first; 0 = all. Each has `aliases` of this tenant, oldest
        first (front_end_key, label, created, factors), `hits` (how often the server has handed the
        program out since it started), `pinned`, and `upstream` (it is on a server that this one
        asks; those are left out unless upstream=True)."""
    def pin(self, content_key: bytes, pinned: bool) -> None:
        """Pins or unpins a program: a pinned one is not evicted. Raises CompileError NOT_FOUND if
        there is no such program."""
    def collect_garbage(
        self, max_bytes: int, unused_seconds: int = 0, timeout_s: float = 600.0
    ) -> dict[str, int]:
        """Removes programs that were unused for unused_seconds (0 = none), and then the longest
        unused until at most max_bytes are left, but never pinned ones. Returns removed,
        bytes_before and bytes_after."""
    def verify(self, each: Callable[[int, int, str, str], object], timeout_s: float) -> None:
        """Lets the server verify all programs; each(done, total, content key, problem)."""
    def import_program(
        self,
        signed_manifest: tuple[bytes, bytes, bytes],
        blobs: Sequence[bytes],
        signed_aliases: Sequence[tuple[bytes, bytes, bytes]],
        timeout_s: float,
    ) -> int:
        """Stores an exported program and returns the number of names that this tenant has for it
        now. Raises CompileError PERMISSION_DENIED if the signing key is not trusted by the server.
        """
    def shutdown(self, reason: str = "") -> None: ...

def sign_record(kind: str, record: bytes, folder: str) -> tuple[bytes, bytes, bytes]:
    """Signs a "manifest" or an "alias" with the key of a folder."""

def check_record(kind: str, record: tuple[bytes, bytes, bytes]) -> bool:
    """Whether the record was signed by its own public key. This says nothing about trust."""

def describe_manifest(record: bytes) -> dict[str, Any]:
    """Returns what LoadedProgram.manifest returns. Raises CompileError DATA_LOSS if it is no
    manifest."""

def make_key(folder: str) -> str:
    """Makes a key pair in a folder, or finds it there. Returns the public key as 64 hexadecimal
    digits."""

def read_keyring(path: str) -> list[str]:
    """The public keys of a keyring's file, 64 hexadecimal digits each."""

def ask_server(
    address: str,
    ca_file: str,
    certificate_file: str,
    key_file: str,
    token_file: str,
    timeout_s: float,
) -> dict[str, Any]:
    """Returns what a compile server reports about itself, as CompileClient.hello does. Raises
    CompileError."""

def server_process(socket_path: str) -> tuple[int, bool] | None:
    """(pid, whether it is stopping) of the server that owns, or owned, this socket; None = none."""

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
    """Returns the path of the socket of a running server of exactly this compiler. Starts one if
    necessary, and replaces a server of another build, or one that lacks an upstream or a
    configuration file that is given here."""

def compile_servers(addresses: str) -> str:
    """Returns the addresses of compile servers as they are understood, separated by commas. Raises
    CompileError INVALID_ARGUMENT with what is wrong."""

def server_paths(cache_dir: str) -> dict[str, str]:
    """Returns where ensure_server puts "socket", "log" and "store". Starts nothing."""
