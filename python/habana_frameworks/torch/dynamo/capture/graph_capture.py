"""Captures one Dynamo graph, and decides in which way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ...internal.collector import without_collector
from .capture import Capture, refuse_numbers
from .inputs import GraphInputs, propagate
from .tracing_state import clean_tracing_state
from .wire import CaptureError, NeedsFunctionalization


@dataclass(frozen=True)
class Captured:
    builder: Any  # has the graph
    nodes: int
    decomposed: list[str]  # ops that PyTorch's own decompositions took apart, sorted


def _captured(builder: Any, capture: Capture) -> Captured:
    writer = capture.writer
    return Captured(builder, writer.node_count, sorted(writer.decomposed))


@without_collector()
def capture_graph(
    module: torch.fx.GraphModule,
    inputs: GraphInputs,
    example_inputs: Sequence[Any],
    values: dict[torch.fx.Node, Any] | None,
    new_builder: Callable[[], Any],
    device: str,
    keep_input_mutations: bool,
    requires_grad: Sequence[bool] | None,
) -> Captured:
    """CaptureError says why there is no captured graph.

    values: known example values of all nodes.
    requires_grad: by placeholder, then by attribute, for a graph that is to be recorded with its
    backward; None for any other.
    """

    def attempt(functional: bool) -> Captured:
        builder = new_builder()
        capture = Capture(module, inputs, known, builder, device)
        if functional:
            capture.run_functional()
        else:
            capture.run()
        return _captured(builder, capture)

    refuse_numbers(module)
    # A later shape is captured where it is called, which may be inside inference mode. Its program
    # also serves calls outside of it, as that of the first shape does.
    grad_mode = torch.set_grad_enabled(torch.is_grad_enabled())
    with clean_tracing_state(), torch.inference_mode(False), grad_mode:
        known = values if values is not None else propagate(module, example_inputs)
        if requires_grad is not None:
            builder = new_builder()
            capture = Capture(module, inputs, known, builder, device)
            capture.run_joint(requires_grad)
            return _captured(builder, capture)
        try:
            return attempt(functional=False)
        except NeedsFunctionalization as need:
            if not keep_input_mutations:
                raise CaptureError(
                    f"{need} is not captured while option keep_input_mutations is off"
                ) from None
            return attempt(functional=True)
