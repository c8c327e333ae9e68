"""Compilers for graphs of ATen calls, in the form that AOTAutograd takes: they return functions
that get their arguments in a list, which they empty.

hpu_backend does not need them: it compiles Dynamo's graphs, with their backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.fx

from .backends import hpu_backend

Boxed = Callable[[list[Any]], Any]


def hpu_compiler_inner(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    is_training: bool,
    is_backward: bool,
) -> Boxed:
    """Compiles a graph. What kind of graph it is, is seen from the graph itself."""
    compiled = hpu_backend(graph_module, example_inputs)

    def call(arguments: list[Any]) -> Any:
        given = tuple(arguments)
        arguments.clear()
        return compiled(*given)

    # AOTAutograd looks for this.
    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def hpu_training_compiler_fw(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> Boxed:
    """Compiles a forward whose backward is compiled separately."""
    return hpu_compiler_inner(graph_module, example_inputs, True, False)


def hpu_training_compiler_bw(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> Boxed:
    """Compiles a backward."""
    return hpu_compiler_inner(graph_module, example_inputs, True, True)


def hpu_inference_compiler(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    dyn_graph_module: torch.fx.GraphModule | None = None,
) -> Boxed:
    """Compiles a forward without a backward. dyn_graph_module: accepted and not needed."""
    return hpu_compiler_inner(graph_module, example_inputs, False, False)
