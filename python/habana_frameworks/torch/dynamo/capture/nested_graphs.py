"""Operations of a Dynamo graph on nested graphs that only say how a part of it is to be compiled.

One is an activation checkpoint. Run as it stands, PyTorch's operation draws other random numbers
when it computes the part again than it drew before, because it leaves them to the compiler. The
other is a region of torch.compiler.nested_compile_region, which is compiled once for all its calls.
PyTorch's operation cannot be differentiated outside of AOTAutograd, and a capture finds equal nodes
by itself.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg

from .inputs import attribute

_CHECKPOINT = torch.ops.higher_order.tag_activation_checkpoint
_REGION = torch.ops.higher_order.invoke_subgraph
# How many arguments come before those of the nested graph: the graph, and for a region its name.
_LEADING = {_CHECKPOINT: 1, _REGION: 2}


class _Inliner:
    def __init__(self, module: torch.fx.GraphModule, operation: Any) -> None:
        self._module = module
        self._operation = operation
        self.graph = torch.fx.Graph()

    def copy(self, graph: torch.fx.Graph, path: str, inputs: list[Any] | None) -> Any:
        """Copies a graph's nodes and returns what the graph returns.

        path: the path of the module whose graph it is, "" for the outermost. inputs: values in
        place of its placeholders; None if it keeps them."""
        values: dict[torch.fx.Node, Any] = {}
        given = iter(inputs or ())

        def read(argument: Any) -> Any:
            return map_arg(argument, values.__getitem__)

        for node in graph.nodes:
            if node.op == "output":
                return read(node.args[0])
            if node.op == "placeholder" and inputs is not None:
                values[node] = next(given)
            elif node.target is self._operation:
                body = path + str(node.args[0].target)
                nested = attribute(self._module, body)
                given_there = list(read(node.args[_LEADING[self._operation] :]))
                values[node] = self.copy(nested.graph, f"{body}.", given_there)
            elif node.op == "get_attr" and {u.target for u in node.users} == {self._operation}:
                continue
            elif node.target is operator.getitem and isinstance(
                of := read(node.args[0]), (tuple, list)
            ):
                values[node] = of[node.args[1]]
            else:
                copied = values[node] = self.graph.node_copy(node, values.__getitem__)
                # another trace made it, so its fake tensors share no memory with those of the outer
                # graph
                if path:
                    copied.meta.pop("example_value", None)
                if node.op == "get_attr":
                    copied.target = path + str(node.target)
        return None


def without_checkpoints(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with its checkpoints' parts inlined, which nothing computes again; the graph itself
    if it has none."""
    return _inlined(module, _CHECKPOINT)


def without_regions(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with its nested regions inlined; the graph itself if it has none."""
    return _inlined(module, _REGION)


def _inlined(module: torch.fx.GraphModule, operation: Any) -> torch.fx.GraphModule:
    if all(node.target is not operation for node in module.graph.nodes):
        return module
    inliner = _Inliner(module, operation)
    inliner.graph.output(inliner.copy(module.graph, "", None))
    made = torch.fx.GraphModule(module, inliner.graph)
    made.meta.update(module.meta)
    return made
