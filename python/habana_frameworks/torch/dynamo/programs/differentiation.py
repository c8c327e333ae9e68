"""Gradients of a compiled graph that are to be differentiated again, computed eagerly.

The backward of a program has no backward of its own. An autograd node that is asked for gradients
with create_graph=True, or inside torch.func.vmap, calls this module
(backend/torch/programs/recorded_call.h): the graph runs once more, op by op, on the arguments of
the call, and autograd differentiates that run.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.fx
import torch.nn.functional as F

from ... import native

# Arguments of these functions that only hold the earlier running statistics: in training nothing
# that the functions return depends on them.
_STATISTICS: dict[Any, tuple[int, ...]] = {
    F.batch_norm: (1, 2, 6),
    torch.batch_norm: (3, 4, 6),
}
_STATISTICS_NAMES = frozenset({"running_mean", "running_var", "momentum"})
_TRAINING = 5  # the position of the argument `training` in both functions

Gradients = list[torch.Tensor | None]


class EagerGradients:
    """Differentiates one graph. Each run restores the state of PyTorch that the thread had when the
    graph was compiled, which Dynamo's guards hold.

    forward: the graph, op by op, as a function of its placeholders. graph: its text, or None where
    there is none. attributes: how many attributes of the module follow the placeholders in a
    program's arguments. mutates: whether the graph writes to some of them.
    """

    def __init__(
        self,
        forward: Callable[[], Callable[..., Any]],
        graph: torch.fx.Graph | None,
        attributes: int,
        mutates: bool,
    ) -> None:
        self._forward = forward
        self._graph = graph
        self._attributes = attributes
        self._mutates = mutates
        self._grad = torch.is_grad_enabled()
        self._autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("hpu", "cpu")
        ]

    def __call__(
        self,
        arguments: tuple[Any, ...],
        tangents: tuple[torch.Tensor | None, ...],
        create_graph: bool,
        place: tuple[int, int] | None,
    ) -> Gradients | str:
        """The gradients by argument, or a text that says why they would not be those of the call.

        tangents: by output. place: seed and offset of the generator when the call was made, if it
        drew numbers.
        """
        count = len(arguments) - self._attributes
        with torch.enable_grad():
            inputs = [self._fresh(argument) for argument in arguments[:count]]
        versions = {
            i: value._version
            for i, value in enumerate(inputs)
            if self._mutates and isinstance(value, torch.Tensor) and not value.is_inference()
        }
        with self._ambient(), _numbers_from(place):
            outputs = self._forward()(*inputs)
        written = [i for i, version in versions.items() if inputs[i]._version != version]
        if written and (self._graph is None or _reaches_outputs(self._graph, written)):
            return f"it wrote to input {written[0]} of the graph, whose value before is gone"
        given = [
            (output, tangent)
            for output, tangent in zip(outputs, tangents, strict=True)
            if tangent is not None and isinstance(output, torch.Tensor) and output.requires_grad
        ]
        # A tensor that is an attribute twice gets its gradient once.
        sources = [*inputs, *arguments[count:]]
        wanted = {
            id(source): i
            for i, source in reversed(list(enumerate(sources)))
            if isinstance(source, torch.Tensor) and source.requires_grad
        }
        gradients: Gradients = [None] * len(sources)
        if not given or not wanted:
            return gradients
        places = list(wanted.values())
        found = torch.autograd.grad(
            [output for output, _ in given],
            [sources[i] for i in places],
            [tangent for _, tangent in given],
            create_graph=create_graph,
            allow_unused=True,
        )
        for i, gradient in zip(places, found, strict=True):
            gradients[i] = gradient
        return gradients

    def _fresh(self, argument: Any) -> Any:
        """A copy of an argument for this run alone: two arguments that are one tensor get a
        gradient each, and a tensor that the graph writes to is not written again."""
        if not isinstance(argument, torch.Tensor):
            return argument
        if argument.requires_grad:
            return argument.view_as(argument)
        return argument.clone() if self._mutates else argument

    @contextmanager
    def _ambient(self) -> Iterator[None]:
        before = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in ("hpu", "cpu")
        ]
        try:
            for state in self._autocast:
                _set_autocast(*state)
            with torch.set_grad_enabled(self._grad):
                yield
        finally:
            for state in before:
                _set_autocast(*state)


def _set_autocast(kind: str, enabled: bool, dtype: torch.dtype) -> None:
    torch.set_autocast_enabled(kind, enabled)
    torch.set_autocast_dtype(kind, dtype)


@contextmanager
def _numbers_from(place: tuple[int, int] | None) -> Iterator[None]:
    """Numbers drawn inside the block are those that the generator gave from that place on."""
    if place is None:
        yield
        return
    device = native.torch_module()
    before = device.get_rng_state()
    state = bytearray(struct.pack("<QQ", *place))
    device.set_rng_state(torch.frombuffer(state, dtype=torch.uint8))
    try:
        yield
    finally:
        device.set_rng_state(before)


def _reaches_outputs(graph: torch.fx.Graph, written: Sequence[int]) -> bool:
    """Whether an output of the graph depends on what those placeholders held."""
    placeholders = graph.find_nodes(op="placeholder")
    known: set[torch.fx.Node] = {placeholders[i] for i in written}
    for node in graph.nodes:
        if node in known:
            continue
        if any(source in known for source in _sources(node)):
            if node.op == "output":
                return True
            known.add(node)
    return False


def _sources(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes on which a node's value depends."""
    places = _STATISTICS.get(node.target) if node.op == "call_function" else None
    if places is None:
        return node.all_input_nodes
    training = node.args[_TRAINING] if len(node.args) > _TRAINING else node.kwargs.get("training")
    if training is not True:
        return node.all_input_nodes
    left = [value for i, value in enumerate(node.args) if i not in places]
    left += [value for name, value in node.kwargs.items() if name not in _STATISTICS_NAMES]
    return [value for value in left if isinstance(value, torch.fx.Node)]
