"""A GraphBuilder in Python that keeps the calls it gets, and a replay of them with torch.

It is the reference for the capture: a recorded graph that is replayed on the same inputs must give
eager's result, with the same strides and aliases.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Value:
    id: int


@dataclasses.dataclass
class Node:
    target: str
    args: tuple
    kwargs: dict
    results: list
    first: int
    draws_random: bool
    source: str


class GraphBuilder:
    """The interface of _torch.GraphBuilder."""

    Value = Value

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

    def add_tensor_input(
        self, dtype, sizes, strides, offset=0, on_cpu=False, name="", is_weight=False
    ) -> int:
        id = self._take(1)
        self.inputs.append((id, (dtype, tuple(sizes), tuple(strides))))
        return id

    def add_scalar_input(self, name="") -> int:
        id = self._take(1)
        self.inputs.append((id, None))
        return id

    def add_constant(self, tensor) -> int:
        id = self._take(1)
        self.constants[id] = tensor.detach().clone(memory_format=torch.contiguous_format)
        return id

    def add_call(self, target, args, kwargs, results, draws_random=False, source="") -> int:
        first = self._take(len(results))
        self.nodes.append(Node(target, args, kwargs, list(results), first, draws_random, source))
        return first

    def set_outputs(self, outputs, forms=()) -> None:
        self.outputs = list(outputs)

    def serialize(self) -> bytes:
        return repr((self.inputs, self.nodes, self.outputs)).encode()

    def targets(self) -> list[str]:
        return [node.target for node in self.nodes]


def _decode(value: Any, values: dict[int, Any]) -> Any:
    if isinstance(value, Value):
        return values[value.id]
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, (list, tuple)):
        return [_decode(v, values) for v in value]
    return value


def effective_strides(sizes, strides) -> list[int]:
    """The strides that address something; in other strides PyTorch's fake and real views differ."""
    return [stride for size, stride in zip(sizes, strides, strict=True) if size > 1]


def shares_memory(tensor: torch.Tensor, *others: Any) -> bool:
    """True if the tensor lies in the storage of one of the others."""
    return any(
        other.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr() != 0
        for other in torch.utils._pytree.tree_leaves(others)
        if isinstance(other, torch.Tensor)
    )


def replay(graph: GraphBuilder, arguments: list[Any]) -> list[Any]:
    """Runs the recorded calls with torch; checks every result's metadata on the way."""
    assert len(arguments) == len(graph.inputs), (len(arguments), len(graph.inputs))
    values: dict[int, Any] = dict(graph.constants)
    for (id, spec), argument in zip(graph.inputs, arguments, strict=True):
        values[id] = argument
        if spec is not None:
            assert spec == (
                argument.dtype,
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
                dtype, sizes, strides, _, memory_of = meta
                assert tensor.dtype == dtype, node
                assert shares_memory(tensor, args, kwargs) == (memory_of is not None), node
                if memory_of is not None:
                    assert shares_memory(tensor, values[memory_of]), node
                assert tuple(tensor.shape) == tuple(sizes), node
                assert effective_strides(tensor.shape, tensor.stride()) == effective_strides(
                    sizes, strides
                ), (node, tensor.stride())
                values[node.first + i] = tensor
    return [_decode(v, values) for v in graph.outputs]
