"""A torch.compile backend for tests that captures on CPU tensors and replays the recording."""

from __future__ import annotations

import dataclasses
from typing import Any

import recorded_graph
import torch

from habana_frameworks.torch.dynamo.capture.capture import Capture
from habana_frameworks.torch.dynamo.capture.inputs import (
    attribute,
    example_values,
    graph_inputs,
    has_symbols,
    propagate,
)
from habana_frameworks.torch.dynamo.capture.wire import CaptureError, NeedsFunctionalization


@dataclasses.dataclass
class Recording:
    """The result for one graph: a recorded graph, or the reason why there is none."""

    graph: recorded_graph.GraphBuilder | None = None
    functional: bool = False
    refused: str = ""
    snippets: int = 0


class CapturingBackend:
    """`torch.compile(f, backend=CapturingBackend())`; `recordings` holds what was captured."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []

    def _capture(self, gm, arguments, values) -> Any:
        recording = Recording()
        self.recordings.append(recording)
        inputs = graph_inputs(gm)
        values = values if values is not None else propagate(gm, arguments)
        try:
            try:
                builder = recorded_graph.GraphBuilder()
                capture = Capture(gm, inputs, values, builder, device="cpu")
                capture.run()
            except NeedsFunctionalization:
                recording.functional = True
                builder = recorded_graph.GraphBuilder()
                capture = Capture(gm, inputs, values, builder, device="cpu")
                capture.run_functional()
        except CaptureError as error:
            recording.refused = str(error)
            return gm.forward
        recording.graph = builder
        recording.snippets = len(capture._snippets)
        attributes = [attribute(gm, path) for path in inputs.attributes]
        return lambda *args: recorded_graph.replay(builder, [*args, *attributes])

    def __call__(self, gm, example_inputs) -> Any:
        if not has_symbols(example_inputs):
            return self._capture(gm, example_inputs, example_values(gm))
        by_shape: dict[Any, Any] = {}

        def call(*args: Any) -> Any:
            key = str([tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in args])
            if key not in by_shape:
                by_shape[key] = self._capture(gm, args, None)
            return by_shape[key](*args)

        return call


def flatten(result: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(result)


def same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """The tensors must be equal in type, shape, elements, and the strides that address
    something."""
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    strides = recorded_graph.effective_strides
    assert strides(ours.shape, ours.stride()) == strides(theirs.shape, theirs.stride())
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def clone_strided(value: Any) -> Any:
    """A copy with the same strides."""
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return copy.copy_(value)


def check_capture(function: Any, *inputs: Any, dynamic: bool | None = False) -> CapturingBackend:
    """Runs `function` in eager mode and captured, on equal inputs; compares results, strides,
    inputs after the call, and which results share memory."""
    torch._dynamo.reset()
    backend = CapturingBackend()
    eager_inputs = [clone_strided(v) for v in inputs]
    captured_inputs = [clone_strided(v) for v in inputs]
    with torch.no_grad():
        expected = flatten(function(*eager_inputs))
        compiled = torch.compile(function, backend=backend, dynamic=dynamic)
        got = flatten(compiled(*captured_inputs))
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        if isinstance(theirs, torch.Tensor):
            same(ours, theirs)
        else:
            assert ours == theirs
    for ours, theirs in zip(captured_inputs, eager_inputs, strict=True):
        if isinstance(theirs, torch.Tensor):
            same(ours, theirs)
    assert sharing([*got, *captured_inputs]) == sharing([*expected, *eager_inputs])
    return backend


def sharing(values: list[Any]) -> list[int]:
    """For each tensor the position of the first one with the same memory."""
    pointers = [
        v.untyped_storage().data_ptr() if isinstance(v, torch.Tensor) else -1 for v in values
    ]
    return [pointers.index(p) for p in pointers]
