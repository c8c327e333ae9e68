"""Recorded ATen calls as templates that can be written into a graph builder any number of times.

A node of the Dynamo graph is traced once per distinct signature; the calls it made form a Snippet
whose tensors are slots. Equal nodes (the same layer twelve times) replay the snippet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from .wire import CaptureError, Meta, dtype_number, enum_name, meta_of, tensor_bytes


class GraphBuilder(Protocol):
    """_client.GraphBuilder."""

    def add_tensor_input(
        self,
        dtype: int,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        on_cpu: bool = False,
        name: str = "",
    ) -> int: ...
    def add_scalar_input(self, name: str = "") -> int: ...
    def add_constant(self, dtype: int, sizes: tuple[int, ...], buffer: bytes) -> int: ...
    def add_node(
        self,
        target: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: list[Meta],
        source: str = "",
    ) -> int: ...
    def set_outputs(self, outputs: list[Any]) -> None: ...
    def serialize(self) -> bytes: ...


class Markers(Protocol):
    """The marker classes of _client that tell values, dtypes and enums from plain numbers."""

    Value: Any
    DType: Any
    MemoryFormat: Any
    Layout: Any
    Device: Any


@dataclass(frozen=True)
class Slot:
    """Tensor number `index` of a snippet: node inputs first, then results of its calls."""

    index: int


@dataclass(frozen=True)
class Call:
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[Meta]
    slots: list[int]  # of the results


@dataclass
class Snippet:
    calls: list[Call] = field(default_factory=list)
    # Slot -> elements of a tensor that the code created from Python data.
    constants: list[tuple[int, torch.Tensor]] = field(default_factory=list)
    slot_count: int = 0
    # What the node returned: slots in place of tensors.
    output: Any = None


class GraphWriter:
    """Writes snippets and single values into a builder."""

    def __init__(self, builder: GraphBuilder, markers: Markers) -> None:
        self.builder = builder
        self.markers = markers
        self.node_count = 0

    def encode(self, value: Any, values: list[int | None]) -> Any:
        """A snippet argument in the form the builder takes."""
        kind = type(value)
        if kind is Slot:
            return self.markers.Value(values[value.index])
        if value is None or kind in (int, float, bool, str):
            return value
        if kind in (list, tuple) or isinstance(value, torch.Size):
            return [self.encode(item, values) for item in value]
        if kind is torch.dtype:
            return self.markers.DType(dtype_number(value))
        if kind is torch.memory_format:
            return self.markers.MemoryFormat(enum_name(value))
        if kind is torch.layout:
            return self.markers.Layout(enum_name(value))
        if kind is torch.device:
            return self.markers.Device(value.type)
        raise CaptureError(f"an argument of type {kind.__name__} has no wire form")

    def write(self, snippet: Snippet, inputs: list[int], source: str) -> list[int | None]:
        """Appends the snippet's calls; the value id of every slot."""
        values: list[int | None] = [None] * snippet.slot_count
        values[: len(inputs)] = inputs
        for slot, tensor in snippet.constants:
            dtype, sizes, _, _ = meta_of(tensor)
            values[slot] = self.builder.add_constant(dtype, sizes, tensor_bytes(tensor))
        for call in snippet.calls:
            args = tuple(self.encode(a, values) for a in call.args)
            kwargs = {k: self.encode(v, values) for k, v in call.kwargs.items()}
            first = self.builder.add_node(call.target, args, kwargs, call.results, source)
            self.node_count += 1
            for i, slot in enumerate(call.slots):
                values[slot] = first + i
        return values
