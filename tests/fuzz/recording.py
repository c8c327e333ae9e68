"""Captures Dynamo graphs on CPU tensors and keeps the names of their ATen calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo.capture.capture import Capture
from habana_frameworks.torch.dynamo.capture.inputs import (
    example_values,
    graph_inputs,
    propagate,
)
from habana_frameworks.torch.dynamo.capture.wire import CaptureError, NeedsFunctionalization


class _Builder:
    """The graph builder, which also notes the targets of the calls."""

    def __init__(self) -> None:
        self._builder = native.torch_module().GraphBuilder("fuzz")
        self.targets: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    def add_call(self, target: str, *args: Any, **kwargs: Any) -> int:
        self.targets.append(target)
        first: int = self._builder.add_call(target, *args, **kwargs)
        return first


class TargetsBackend:
    """torch.compile(f, backend=TargetsBackend()) runs eagerly; `targets` has the captured calls."""

    def __init__(self) -> None:
        self.targets: list[str] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        values = example_values(gm)
        values = propagate(gm, example_inputs) if values is None else values

        def capture() -> tuple[_Builder, Capture]:
            builder = _Builder()
            return builder, Capture(gm, graph_inputs(gm), values, builder, "cpu")

        try:
            builder, graph = capture()
            try:
                graph.run()
            except NeedsFunctionalization:
                builder, graph = capture()
                graph.run_functional()
        except CaptureError:
            return gm.forward  # hpu_backend runs such a graph eagerly
        self.targets += builder.targets
        return gm.forward
