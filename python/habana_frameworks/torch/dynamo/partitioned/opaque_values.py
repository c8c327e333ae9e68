"""Objects that AOTAutograd hands through a part and that no program takes, such as the device
meshes of DTensors: they are taken out of the part's graph and put back around its program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ..capture.wire import CaptureError
from ..programs.binding import Compiled

_OF_PROGRAMS = (
    torch.Tensor,
    *(bool, int, float, complex, type(None)),
    *(torch.SymBool, torch.SymInt, torch.SymFloat),
)


@dataclass(frozen=True)
class OpaqueValues:
    """A part without its opaque inputs."""

    graph: torch.fx.GraphModule
    kept: list[int]  # positions of the inputs that `graph` takes
    returned: list[tuple[int, int]]  # positions of an output and of the opaque input that it is

    def inputs(self, values: Sequence[Any]) -> list[Any]:
        return [values[i] for i in self.kept]

    def bind(self, call: Compiled) -> Compiled:
        """Wraps a callable for `graph` as one for the part."""
        kept, returned = self.kept, self.returned

        def call_with_opaque_values(*args: Any) -> Any:
            outputs = list(call(*[args[i] for i in kept]))
            for output, source in returned:
                outputs[output] = args[source]
            return outputs

        return call_with_opaque_values


def split_opaque_values(part: torch.fx.GraphModule, inputs: Sequence[Any]) -> OpaqueValues | None:
    """Returns None if the part has no opaque inputs. Raises CaptureError if it computes with
    one."""
    opaque = {i for i, value in enumerate(inputs) if not isinstance(value, _OF_PROGRAMS)}
    if not opaque:
        return None
    graph = torch.fx.Graph()
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    returned: list[tuple[int, int]] = []
    placeholders = part.graph.find_nodes(op="placeholder")
    sources = {node: i for i, node in enumerate(placeholders) if i in opaque}

    def copy_of(node: torch.fx.Node) -> torch.fx.Node:
        if node in sources:
            kind = type(inputs[sources[node]]).__name__
            raise CaptureError(f"it computes with input {node.name}, a {kind}")
        return copied[node]

    for node in part.graph.nodes:
        if node in sources:
            continue
        if node.op != "output":
            copied[node] = graph.node_copy(node, copy_of)
            continue
        outputs = []
        for position, value in enumerate(node.args[0]):
            if isinstance(value, torch.fx.Node) and value in sources:
                returned.append((position, sources[value]))
                value = None
            outputs.append(copied[value] if isinstance(value, torch.fx.Node) else value)
        copied[node] = graph.output(tuple(outputs))
        copied[node].meta = dict(node.meta)
    kept = [i for i in range(len(inputs)) if i not in opaque]
    return OpaqueValues(torch.fx.GraphModule(part, graph), kept, returned)
