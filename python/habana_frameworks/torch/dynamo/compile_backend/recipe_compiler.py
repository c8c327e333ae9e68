"""A graph as a module that runs as recipes."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from .backends import hpu_backend


class HabanaGraphModule(torch.nn.Module):
    """Compiles a graph of ATen calls at its first call, for the arguments of that call.

    Later calls have tensors of the same shapes. `is_training` and `is_dynamic` are accepted: what
    kind of graph it is, is seen from the graph itself.
    """

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        is_training: bool = False,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__()
        self._graph_module = graph_module
        self._compiled: Any = None
        (returned,) = graph_module.graph.output_node().args
        self._returns_several = isinstance(returned, (list, tuple))

    def forward(self, *args: Any) -> Any:
        if self._compiled is None:
            self._compiled = hpu_backend(self._graph_module, args)
        results = self._compiled(*args)
        return results if self._returns_several else results[0]
