"""Client of the compile server: graphs, keys, programs. C++; never links torch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import Buffer

class CompileError(RuntimeError):
    """The compiler or its server said no."""

    code: str
    """Canonical name of the reason: "UNIMPLEMENTED", "INVALID_ARGUMENT", "INTERNAL", "DATA_LOSS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", ..."""

class ServerUnavailable(CompileError):
    """No server can be reached or started, it did not answer in time, or this process was forked
    from one that had used it."""

class Value:
    """A tensor of the graph under construction, by its id."""

    id: int
    def __init__(self, id: int) -> None: ...

class DType:
    """An element type by its number (base/dtype.h)."""

    number: int
    def __init__(self, number: int) -> None: ...

class MemoryFormat:
    """ "contiguous_format", "channels_last", "preserve_format"."""

    name: str
    def __init__(self, name: str) -> None: ...

class Layout:
    """ "strided"."""

    name: str
    def __init__(self, name: str) -> None: ...

class Device:
    """ "hpu" or "cpu"."""

    name: str
    def __init__(self, name: str) -> None: ...

class GraphBuilder:
    """Builds the wire form of a captured graph (proto/graph.proto).

    Value ids are dense over inputs, constants and results, in the order of the calls. Sizes,
    strides and offsets are in elements. Wrong arguments raise TypeError or ValueError that name the
    node and the argument; a refused call leaves the graph as it was.
    """

    def __init__(self, name: str) -> None: ...
    def add_tensor_input(
        self,
        dtype: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        on_cpu: bool = False,
        name: str = "",
    ) -> int: ...
    def add_scalar_input(self, name: str = "") -> int: ...
    def add_constant(self, dtype: int, sizes: Sequence[int], buffer: Buffer) -> int:
        """`buffer` holds the elements contiguously, little endian."""
    def add_node(
        self,
        target: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Sequence[tuple[int, Sequence[int], Sequence[int], int]],
        source: str = "",
    ) -> int:
        """One ATen call; arguments are None, bool, int, float, str, Value and the other markers, or
        lists and tuples of them; results are (dtype, sizes, strides, storage_offset). The id of the
        first result."""
    def set_outputs(self, outputs: Sequence[Value | bool | int | float | None]) -> None: ...
    def serialize(self) -> bytes: ...
    @property
    def node_count(self) -> int: ...

class KeyBuilder:
    """SHA-256 over named fields in order (docs/cache_key.md)."""

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
        """ "compiled" (by this call), "coalesced" (by another call at the same time), "store" or
        "memory" (of this process)."""
    @property
    def compile_ms(self) -> float:
        """What compiling took when it was done."""
    @property
    def fetch_ms(self) -> float:
        """What this call took."""
    @property
    def manifest(self) -> dict[str, Any]:
        """key, program, recipes, compiler_build_id, device_kind, isa_level, compile_ms, created,
        factors."""

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
        memory_bytes: int = ...,
    ) -> None:
        """store_public_key_path: the trusted signer; by default "<socket>.pub", which the server
        writes into its folder of mode 0700. memory_bytes: bound of the programs kept here."""
    def hello(self) -> dict[str, Any]:
        """build_id, protocol_version, pid."""
    def get(self, key: bytes) -> LoadedProgram | None:
        """From this process's memory or the store; None is a miss."""
    def compile(
        self,
        key: bytes,
        graph: bytes,
        options: Mapping[str, str],
        factors: Sequence[tuple[str, str]],
        device_kind: str,
        isa_level: str,
        progress: Callable[[str, int, int], object] | None = None,
        timeout_s: float = 300.0,
        skip_cache_lookup: bool = False,
    ) -> LoadedProgram:
        """Compiles, or waits for the one compilation of this key that is under way, or answers from
        the store. progress(stage, done, total); stage "queued" has the position in `done`."""
    def stats(self) -> dict[str, int]: ...
    def list(self, limit: int = 0) -> list[dict[str, Any]]:
        """Manifests in the store, newest first; 0 = all."""
    def shutdown(self, reason: str = "") -> None: ...

def ensure_server(
    server_binary: str,
    cache_dir: str,
    log_level: int = 2,
    start_timeout_s: float = 20.0,
    idle_timeout_s: int = 900,
) -> str:
    """Path of the socket of a running server of exactly this compiler; starts one if need be, and
    replaces one of another build."""

def server_paths(cache_dir: str) -> dict[str, str]:
    """Where ensure_server puts "socket", "log" and "store"; starts nothing."""
