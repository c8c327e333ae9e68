"""Recorded ATen calls as templates that can be written into a graph builder any number of times.

A node of the Dynamo graph is traced once per distinct signature; the calls it made form a Snippet
whose tensors are slots. Equal nodes (the same layer twelve times) replay the snippet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from ...torch_compat.transforms import is_functorch_wrapped_tensor
from .wire import CaptureError, Meta

# A result's Meta, then the value id of the tensor whose memory it lies in, or None if it has memory
# of its own.
Result = tuple[torch.dtype, tuple[int, ...], tuple[int, ...], int, int | None]


class GraphBuilder(Protocol):
    """_torch.GraphBuilder."""

    Value: Any

    def add_tensor_input(
        self,
        dtype: torch.dtype,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        storage_offset: int = 0,
        on_cpu: bool = False,
        name: str = "",
        is_weight: bool = False,
    ) -> int: ...
    def add_scalar_input(self, name: str = "") -> int: ...
    def add_constant(self, tensor: torch.Tensor) -> int: ...
    def add_call(
        self,
        target: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: list[Result],
        draws_random: bool = False,
        source: str = "",
    ) -> int: ...
    def set_outputs(self, outputs: list[Any], forms: Sequence[str] = ()) -> None: ...
    def set_derivative(
        self, tangents: list[tuple[int, int]], gradients: list[tuple[int, int]]
    ) -> None: ...
    def serialize(self) -> bytes: ...


@dataclass(frozen=True)
class Slot:
    """Tensor number `index` of a snippet."""

    index: int


@dataclass(frozen=True)
class Call:
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[Meta]
    # the slots whose memory the results lie in; None for memory of their own
    memory: list[int | None]
    slots: list[int]  # the slots of the results
    draws_random: bool
    device: str  # the device type of the first result


_CONVERSION = "aten._to_copy.default"


def _on_device(call: Call) -> dict[str, Any]:
    """The arguments of a call as a program runs it: it computes values of the CPU on the device, so
    that a copy between the two goes nowhere."""
    if call.target != _CONVERSION:
        return call.kwargs
    return {k: v for k, v in call.kwargs.items() if k not in ("device", "pin_memory")}


@dataclass
class Snippet:
    calls: list[Call] = field(default_factory=list)
    # Slot -> elements of a tensor that the code created from Python data.
    constants: list[tuple[int, torch.Tensor]] = field(default_factory=list)
    slot_count: int = 0
    # The slots of the tensors that the caller of a replay gives.
    inputs: list[int] = field(default_factory=list)
    # The value that the node returned, with slots in place of tensors.
    output: Any = None
    # Ops that PyTorch's own decompositions took apart: "aten.diag_embed.default".
    decomposed: list[str] = field(default_factory=list)


class GraphWriter:
    """Writes snippets and single values into a builder."""

    def __init__(self, builder: GraphBuilder, device: str) -> None:
        self.builder = builder
        self.device = device  # the device whose generator draws
        self.node_count = 0
        self.decomposed: set[str] = set()

    def encode(self, value: Any, values: list[int | None]) -> Any:
        """A snippet argument with the builder's values in place of slots."""
        if type(value) is Slot:
            return self.builder.Value(values[value.index])
        if isinstance(value, (list, tuple)):
            return [self.encode(item, values) for item in value]
        return value

    def write(self, snippet: Snippet, inputs: list[int], source: str) -> list[int | None]:
        """Appends the snippet's calls and returns the value id of every slot."""
        values: list[int | None] = [None] * snippet.slot_count
        for slot, value in zip(snippet.inputs, inputs, strict=True):
            values[slot] = value
        for slot, tensor in snippet.constants:
            # The elements of other tensor classes are not in their memory, if they have any.
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                raise CaptureError(f"the graph calculates with a {type(tensor).__name__}")
            if is_functorch_wrapped_tensor(tensor):
                raise CaptureError("a function transform (torch.func) cannot be captured")
            values[slot] = self.builder.add_constant(tensor)
        self.decomposed.update(snippet.decomposed)
        for call in snippet.calls:
            if call.draws_random and call.device != self.device:
                raise CaptureError(f"the graph draws random numbers on {call.device}")
            args = tuple(self.encode(a, values) for a in call.args)
            kwargs = {k: self.encode(v, values) for k, v in _on_device(call).items()}
            results: list[Result] = [
                (*meta, None if slot is None else values[slot])
                for meta, slot in zip(call.results, call.memory, strict=True)
            ]
            try:
                first = self.builder.add_call(
                    call.target, args, kwargs, results, call.draws_random, source
                )
            except (TypeError, ValueError) as error:
                raise CaptureError(str(error).partition("\n")[0]) from error
            self.node_count += 1
            for i, slot in enumerate(call.slots):
                values[slot] = first + i
        return values

    def copy_to_host(self, value: int, result: torch.Tensor) -> int:
        """Appends the copy of an output to the CPU and returns its value id. result: a fake tensor
        that lies there as the copy should."""
        self.node_count += 1
        sizes = tuple(result.shape)
        row_major = torch.empty(sizes, device="meta").stride()
        return self.builder.add_call(
            "hpu.copy_to_host.default",
            (self.builder.Value(value), list(result.stride())),
            {},
            [(result.dtype, sizes, row_major, 0, None)],
        )
