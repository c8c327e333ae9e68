"""Activation checkpoints of a Dynamo graph, which has each as an operation on a nested graph.

Run as it stands, PyTorch's operation draws other random numbers when it computes a part again than
it drew before: it leaves them to the compiler.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg

from .inputs import attribute

_CHECKPOINT = torch.ops.higher_order.tag_activation_checkpoint


class _Inliner:
    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._module = module
        self.graph = torch.fx.Graph()

    def copy(self, graph: torch.fx.Graph, path: str, inputs: list[Any] | None) -> Any:
        """Copies a graph's nodes; what it returns. path: of the module whose graph it is, "" for
        the outermost. inputs: in place of its placeholders; None if it keeps them."""
        values: dict[torch.fx.Node, Any] = {}
        given = iter(inputs or ())

        def read(argument: Any) -> Any:
            return map_arg(argument, values.__getitem__)

        for node in graph.nodes:
            if node.op == "output":
                return read(node.args[0])
            if node.op == "placeholder" and inputs is not None:
                values[node] = next(given)
            elif node.target is _CHECKPOINT:
                body = path + str(node.args[0].target)
                nested = attribute(self._module, body)
                values[node] = self.copy(nested.graph, f"{body}.", list(read(node.args[1:])))
            elif node.op == "get_attr" and {user.target for user in node.users} == {_CHECKPOINT}:
                continue
            elif node.target is operator.getitem and isinstance(
                of := read(node.args[0]), (tuple, list)
            ):
                values[node] = of[node.args[1]]
            else:
                copied = values[node] = self.graph.node_copy(node, values.__getitem__)
                if node.op == "get_attr":
                    copied.target = path + str(node.target)
        return None


def inlined(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with its checkpoints' parts in place, which nothing computes again; itself if it
    has none."""
    if all(node.target is not _CHECKPOINT for node in module.graph.nodes):
        return module
    inliner = _Inliner(module)
    inliner.graph.output(inliner.copy(module.graph, "", None))
    return torch.fx.GraphModule(module, inliner.graph)
