"""Stand-ins for _client and _torch: a service in memory whose programs replay on the CPU."""

from __future__ import annotations

import hashlib
import types
from typing import Any

import recorded_graph


class CompileError(Exception):
    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class ServerUnavailable(CompileError):
    def __init__(self, message: str, code: str = "UNAVAILABLE") -> None:
        super().__init__(message, code)


class KeyBuilder:
    def __init__(self) -> None:
        self._factors: list[tuple[str, str]] = []

    def field(self, name: str, value: str) -> None:
        assert isinstance(name, str)
        assert isinstance(value, str)
        self._factors.append((name, value))

    def factors(self) -> list[tuple[str, str]]:
        return self._factors

    def digest(self) -> bytes:
        return hashlib.sha256(repr(self._factors).encode()).digest()


class AliasedInputs(RuntimeError):
    pass


class InputsWithTangents(RuntimeError):
    pass


class Program:
    """Replays a recorded graph; refuses like _torch.Program where it is told to."""

    alias_error = False
    load_errors: list[Exception] = []
    has_backward = False

    def __init__(self, program: Any, recipes: Any, name: str) -> None:
        if Program.load_errors:
            raise Program.load_errors.pop(0)
        self._graph = program
        self.node_count = len(program.nodes)
        self.eager_node_count = 0
        self.call_count = 0

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        if Program.alias_error:
            raise AliasedInputs("input 0 shares memory with input 1")
        self.call_count += 1
        return tuple(recorded_graph.replay(self._graph, list(inputs)))

    def text(self) -> str:
        return ""


class Store:
    """The state that survives a process; the clients of one test share it."""

    def __init__(self) -> None:
        self.programs: dict[bytes, Any] = {}  # by content key
        self.aliases: dict[bytes, bytes] = {}  # front-end key -> content key
        self.labels: list[str] = []
        self.joins = False  # another request compiles the same at the same time
        self.compilations = 0
        self.recompilations = 0
        self.starts = 0
        self.start_error: Exception | None = None
        self.compile_errors: list[Exception] = []
        self.get_errors: list[Exception] = []


def content_key(graph: Any, options: dict[str, str]) -> bytes:
    """Names and source lines are not part of the key."""
    nodes = [(n.target, n.args, n.kwargs, n.results, n.first) for n in graph.nodes]
    content = (graph.inputs, nodes, graph.outputs, sorted(options.items()))
    return hashlib.sha256(repr(content).encode()).digest()


class Builder(recorded_graph.GraphBuilder):
    def serialize(self) -> Any:
        return self


def client_module(store: Store) -> Any:
    """A module like _client over `store`."""

    class CompileClient:
        def __init__(self, socket: str) -> None:
            pass

        def hello(self) -> dict[str, Any]:
            return {"build_id": "build-1", "protocol_version": 2, "pid": 1, "memory_only": False}

        def list(self, upstream: bool = False) -> list[Any]:
            return []

        def _loaded(self, content: bytes, origin: str) -> Any:
            return types.SimpleNamespace(
                program=store.programs[content],
                recipes=[b""],
                origin=origin,
                compile_ms=1.0,
                fetch_ms=0.1,
                manifest={"key": content.hex(), "factors": [("graph", content.hex())]},
            )

        def get(self, front_end_key: bytes) -> Any:
            if store.get_errors:
                raise store.get_errors.pop(0)
            content = store.aliases.get(front_end_key)
            return None if content is None else self._loaded(content, "store")

        def compile(
            self,
            graph,
            options,
            device_kind,
            isa_level,
            front_end,
            progress,
            timeout_s,
            skip_cache_lookup,
            warm_up,
            frozen,
        ) -> Any:
            if store.compile_errors:
                raise store.compile_errors.pop(0)
            content = content_key(graph, options)
            known = content in store.programs and not skip_cache_lookup
            if not known:
                store.compilations += not store.joins
                progress("pass", 1, 2)
                store.programs[content] = graph
            store.recompilations += skip_cache_lookup
            if front_end is not None:
                key, factors, label = front_end
                assert factors[0] == ("compiler", "build-1")
                store.aliases[key] = content
                store.labels.append(label)
            return self._loaded(
                content, "store" if known else "coalesced" if store.joins else "compiled"
            )

    def ensure_server(**_: Any) -> str:
        store.starts += 1
        if store.start_error is not None:
            raise store.start_error
        return "socket"

    return types.SimpleNamespace(
        KeyBuilder=KeyBuilder,
        CompileClient=CompileClient,
        CompileError=CompileError,
        ServerUnavailable=ServerUnavailable,
        ensure_server=ensure_server,
    )


class TorchModule:
    """Like _torch where the hook uses it for programs and keys; everything else is the real
    module's."""

    Program = Program
    AliasedInputs = AliasedInputs
    InputsWithTangents = InputsWithTangents
    GraphBuilder = Builder

    def __init__(self, real: Any) -> None:
        self._real = real

    def device_kind(self) -> str:
        return "gaudi2"

    def isa_level(self) -> str:
        return "x86-64-v3"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
