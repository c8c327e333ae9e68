"""A GraphBuilder in Python that keeps what it is told, and a replay of it with torch.

Grounds the capture: a recorded graph replayed on the same inputs must give eager's result, with the
same strides and aliases.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from habana_frameworks.torch.dynamo.wire import DTYPE_NUMBERS

_DTYPES = {number: dtype for dtype, number in DTYPE_NUMBERS.items()}


@dataclasses.dataclass(frozen=True)
class Value:
    id: int


@dataclasses.dataclass(frozen=True)
class DType:
    number: int


@dataclasses.dataclass(frozen=True)
class MemoryFormat:
    name: str


@dataclasses.dataclass(frozen=True)
class Layout:
    name: str


@dataclasses.dataclass(frozen=True)
class Device:
    name: str


@dataclasses.dataclass
class Node:
    target: str
    args: tuple
    kwargs: dict
    results: list
    first: int
    source: str


class GraphBuilder:
    """The interface of _client.GraphBuilder."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.next_id = 0
        self.inputs: list[tuple[int, tuple | None]] = []
        self.constants: dict[int, torch.Tensor] = {}
        self.nodes: list[Node] = []
        self.outputs: list[Any] = []

    def _take(self, count: int) -> int:
        first = self.next_id
        self.next_id += count
        return first

    def add_tensor_input(self, dtype, sizes, strides, on_cpu=False, name="") -> int:
        id = self._take(1)
        self.inputs.append((id, (dtype, tuple(sizes), tuple(strides))))
        return id

    def add_scalar_input(self, name="") -> int:
        id = self._take(1)
        self.inputs.append((id, None))
        return id

    def add_constant(self, dtype, sizes, buffer) -> int:
        id = self._take(1)
        flat = torch.frombuffer(bytearray(buffer), dtype=torch.uint8) if buffer else torch.empty(0)
        self.constants[id] = flat.view(_DTYPES[dtype]).reshape(sizes)
        return id

    def add_node(self, target, args, kwargs, results, source="") -> int:
        first = self._take(len(results))
        self.nodes.append(Node(target, args, kwargs, list(results), first, source))
        return first

    def set_outputs(self, outputs) -> None:
        self.outputs = list(outputs)

    def serialize(self) -> bytes:
        return repr((self.inputs, self.nodes, self.outputs)).encode()

    def targets(self) -> list[str]:
        return [node.target for node in self.nodes]


def _decode(value: Any, values: dict[int, Any]) -> Any:
    if isinstance(value, Value):
        return values[value.id]
    if isinstance(value, DType):
        return _DTYPES[value.number]
    if isinstance(value, (MemoryFormat, Layout)):
        return getattr(torch, value.name)
    if isinstance(value, Device):
        return torch.device("cpu")
    if isinstance(value, (list, tuple)):
        return [_decode(v, values) for v in value]
    return value


def effective_strides(sizes, strides) -> list[int]:
    """Strides that address something: PyTorch's fake and real views differ in the others."""
    return [stride for size, stride in zip(sizes, strides, strict=True) if size > 1]


def replay(graph: GraphBuilder, arguments: list[Any]) -> list[Any]:
    """Runs the recorded calls with torch; checks every result's metadata on the way."""
    assert len(arguments) == len(graph.inputs), (len(arguments), len(graph.inputs))
    values: dict[int, Any] = dict(graph.constants)
    for (id, spec), argument in zip(graph.inputs, arguments, strict=True):
        values[id] = argument
        if spec is not None:
            assert spec == (
                DTYPE_NUMBERS[argument.dtype],
                tuple(argument.shape),
                tuple(argument.stride()),
            )
    with torch.no_grad():
        for node in graph.nodes:
            namespace, op, overload = node.target.split(".")
            function = getattr(getattr(getattr(torch.ops, namespace), op), overload)
            args = [_decode(a, values) for a in node.args]
            kwargs = {k: _decode(v, values) for k, v in node.kwargs.items()}
            result = function(*args, **kwargs)
            results = result if isinstance(result, (list, tuple)) else [result]
            for i, (tensor, meta) in enumerate(zip(results, node.results, strict=True)):
                dtype, sizes, strides, _ = meta
                assert tensor.dtype == _DTYPES[dtype], node
                assert tuple(tensor.shape) == tuple(sizes), node
                assert effective_strides(tensor.shape, tensor.stride()) == effective_strides(
                    sizes, strides
                ), (node, tensor.stride())
                values[node.first + i] = tensor
    return [_decode(v, values) for v in graph.outputs]
