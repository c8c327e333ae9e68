"""A graph of a stored start: the key of its program, and its forward as text.

The program itself comes from the compile service, verified as on any other hit. The forward runs
where a program cannot: for inputs that share memory with one that is written, and for graphs
without a program.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.package.importer import sys_importer

from ...torch_compat.graph_code import format_import_block, forward_from_src
from ...torch_compat.ops import OpOverload, OpOverloadPacket
from ...torch_compat.stream_calls import get_external_object_by_index
from ..capture.inputs import CONSTANT_BYTES, attribute
from ..capture.wire import tensor_bytes
from ..fingerprints.function_text import Uncacheable, code_of
from ..records.records import GraphRecord
from .code_fingerprint import find
from .describe import Refused, Unknown


@dataclass(frozen=True)
class StoredGraph:
    source: str  # the place of its code, for people
    front_end_key: str  # the key of its program; "" if it runs eagerly
    factors: list[tuple[str, str]]
    reason: str  # why it runs eagerly
    forward: str  # the Python text of a function of self and the inputs
    # Tensors that the text reads from self: element type, sizes, device, bytes.
    constants: dict[str, tuple[torch.dtype, tuple[int, ...], torch.device, bytes]]
    # Functions that it calls and whose names do not say what they do: by module ("torch.ops" for
    # operators) and name, the text of their content.
    functions: dict[tuple[str, str], str]

    def difference(self) -> str:
        """Says which of its functions differs here, for people; "" if none does."""
        for (module, name), there in self.functions.items():
            try:
                here = code_of(_called(module, name))
            except (ImportError, AttributeError, Unknown, Uncacheable) as error:
                return f"{module}.{name}: {error}"
            if here != there:
                return f"{module}.{name} is not what it was"
        return ""

    def bind_forward(self) -> Any:
        """The graph, run op by op, which needs no tracing."""
        holder = torch.nn.Module()
        for name, (dtype, sizes, device, content) in self.constants.items():
            flat = torch.frombuffer(bytearray(content), dtype=dtype) if content else torch.empty(0)
            setattr(holder, name, flat.to(dtype).reshape(sizes).to(device))
        function = forward_from_src(self.forward, {})
        return lambda *args: function(holder, *args)


def store_graph(module: torch.fx.GraphModule, record: GraphRecord) -> StoredGraph:
    """The graph as it is stored. Raises Refused."""
    if not record.front_end_key and record.origin != "eager":
        raise Refused(f"{record.name} has no front-end key ({record.reason})")
    constants = {}
    for node in module.graph.nodes:
        if node.target is get_external_object_by_index:
            raise Refused(f"{record.name} uses streams or events")
        if node.op in ("get_attr", "call_module"):
            path = str(node.target)
            value = attribute(module, path)
            if type(value) is not torch.Tensor or "." in path:
                raise Refused(f"{record.name} has {path}, a {type(value).__name__}")
            if value.numel() * value.element_size() > CONSTANT_BYTES:
                raise Refused(f"{record.name} reads a tensor of the process that traced it")
            constants[path] = (value.dtype, tuple(value.shape), value.device, tensor_bytes(value))
    functions = {
        _place(target): text
        for target in {n.target for n in module.graph.nodes if n.op == "call_function"}
        if (text := _content(target)) is not None
    }
    code = module.graph.python_code("self")
    try:
        imports = format_import_block(code.globals, sys_importer)
    except Exception as error:
        raise Refused(f"{record.name} cannot be written as text: {error}") from error
    return StoredGraph(
        record.source,
        record.front_end_key,
        record.factors,
        record.reason,
        imports + code.src,
        constants,
        functions,
    )


def _content(target: Any) -> str | None:
    """The text of a function's content, None if its name is enough. Raises Refused."""
    try:
        return code_of(target)
    except Uncacheable as error:
        raise Refused(str(error)) from error


def _place(target: Any) -> tuple[str, str]:
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return "torch.ops", str(target)
    return target.__module__, target.__qualname__


def _called(module: str, name: str) -> Any:
    """The inverse of _place. Raises an exception that says what is missing."""
    if module != "torch.ops":
        return find(module, name)
    value: Any = torch.ops
    for part in name.split("."):
        value = getattr(value, part)
    return value


class _UnderWay(threading.local):
    """The graphs of each frame that this thread traces, the innermost frame last, by Dynamo's name
    of their function. Dynamo calls the backend in the thread that traces."""

    def __init__(self) -> None:
        self.frames: list[dict[str, StoredGraph | str]] = []


_under_way = _UnderWay()


@contextlib.contextmanager
def collecting() -> Iterator[None]:
    """Surrounds the trace of one frame: note() keeps its graphs, take() returns them."""
    _under_way.frames.append({})
    try:
        yield
    finally:
        _under_way.frames.pop()


def note(module: torch.fx.GraphModule, record: GraphRecord) -> None:
    """Keeps a graph, or why it cannot be kept, until its frame has been traced."""
    name = module.meta.get("backend_id")
    if name is None or not _under_way.frames:
        return
    try:
        _under_way.frames[-1][name] = store_graph(module, record)
    except Refused as error:
        _under_way.frames[-1][name] = str(error)


def take(name: str) -> StoredGraph:
    """The graph that was kept under Dynamo's name. Raises Refused."""
    missing = "its graph has no program that another process finds"
    found = _under_way.frames[-1].get(name, missing) if _under_way.frames else missing
    if isinstance(found, str):
        raise Refused(found)
    return found
