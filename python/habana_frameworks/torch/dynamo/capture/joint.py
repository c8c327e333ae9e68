"""Tracing of a graph together with its backward, from which a training graph is recorded.

The graph runs on functional wrappers whose autograd is on, under the modes that record (recorder,
functional), and `torch.autograd.grad` runs after it with tangents of its outputs as further inputs.
One recording then has forward and backward, and the compile server separates them. PyTorch's
AOTAutograd does the same with a graph of its own in between, which takes several times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ...torch_compat.fakes import FakeTensorMode
from ...torch_compat.functionalization import (
    disable_functionalization,
    enable_functionalization,
    enable_python_dispatcher,
    to_functional_tensor,
)
from ...torch_compat.trees import tree_flatten
from .aliases import PLAIN, alias_forms
from .functional import Functionalization, check_aliases, elements_share_memory, renewed_inputs
from .recorder import RecordingMode, SnippetRecorder, storage_of, unwrap_functional
from .snippet import Snippet
from .whole_ops_mode import WritingOpsMode
from .wire import CaptureError


@dataclass(frozen=True)
class JointRecording:
    """A recorded graph with its backward. Tensors are fake tensors."""

    # its inputs are those of the graph, then the tangents; its output is two lists
    snippet: Snippet
    results: list[Any]  # the results of the graph, then the gradients
    mutated: list[int]  # inputs that were written to
    tangents: list[tuple[int, torch.Tensor]]  # position in `results`, its gradient
    gradients: list[tuple[int, int]]  # input, position in `results` of its gradient
    forms: list[str]  # by result (aliases.py)


@contextmanager
def _without_autocast() -> Iterator[None]:
    """Turns autocast off, because the backward of code that ran under autocast consists of the
    casts that were recorded."""
    enabled = [kind for kind in ("hpu", "cpu") if torch.is_autocast_enabled(kind)]
    for kind in enabled:
        torch.set_autocast_enabled(kind, False)
    try:
        yield
    finally:
        for kind in enabled:
            torch.set_autocast_enabled(kind, True)


def _unwritten(saved: tuple[torch.Tensor, int]) -> torch.Tensor:
    """A tensor that a backward reads. For a written one, autograd's own error comes from the eager
    graph."""
    tensor, version = saved
    if tensor._version != version:
        raise CaptureError("the graph writes to a tensor that its backward reads")
    return tensor


def _differentiable(
    wrapped: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The outputs that get a gradient through the graph. An output that is an input, or a view of
    one, is made from the caller's tensor at every call, outside of the graph."""
    of_inputs = {storage_of(w) for w in wrapped}
    found = [o for o in outputs if o.requires_grad and storage_of(o) not in of_inputs]
    storages = [storage_of(o) for o in outputs]
    for output in found:
        if storages.count(storage_of(output)) > 1:
            raise CaptureError("the graph returns views of one tensor that gradients flow through")
    return found


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill one piece of memory, each with a place of its own."""
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.numel() == 0 or (
        reach + 1 == tensor.numel() and not elements_share_memory(tensor)
    )


def _like_parameter(gradient: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The gradient with the parameter's strides: AccumulateGrad takes such a gradient without a
    copy and copies any other."""
    order = list(range(parameter.dim()))
    if _is_dense(parameter):
        strides, sizes = parameter.stride(), parameter.shape
        order.sort(key=lambda d: (-strides[d], -sizes[d], d))
    inverse = [order.index(d) for d in range(parameter.dim())]
    return gradient.permute(order).contiguous().permute(inverse)


def record_joint(
    mode: FakeTensorMode,
    fakes: Sequence[torch.Tensor],
    requires_grad: Sequence[bool],
    run: Callable[[list[torch.Tensor]], Any],
) -> JointRecording:
    """Runs `run` on functional wrappers of `fakes` and records it with its backward.

    The run begins in the grad mode of the graph's caller, which the graph may switch. The recording
    has no tangents and gradients if no result gets a gradient, as in a whole training step that
    calls autograd itself. Raises CaptureError for gradients that a program does not give."""
    recorder = SnippetRecorder(fakes)
    recording = RecordingMode(recorder)
    # Hooks of the caller (a checkpoint's) are for the tensors that the compiled graph will save.
    # Autograd does not check versions of tensors that go through hooks.
    no_hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: (t, t._version), _unwritten)
    grad_mode = torch.set_grad_enabled(torch.is_grad_enabled())
    with mode, recording, enable_python_dispatcher(), grad_mode, no_hooks:
        wrapped = [to_functional_tensor(fake) for fake in fakes]
        one_thread = torch.autograd.set_multithreading_enabled(False)
        with Functionalization(), WritingOpsMode(recording), one_thread:
            for wrapper, wanted in zip(wrapped, requires_grad, strict=True):
                wrapper.requires_grad_(wanted)
            result = run(wrapped)
            leaves, _ = tree_flatten(result)
            outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            targets = _differentiable(wrapped, outputs)
            forms = alias_forms(wrapped, leaves, autograd=True)
            with torch.no_grad(), recording.paused():
                tangents = [_new_tangent(target) for target in targets]
            for tangent in tangents:
                recorder.add_input(tangent)
            with _without_autocast():
                gradients = _gradients(wrapped, targets, tangents) if targets else []
        with torch.no_grad():
            renewed, mutated = renewed_inputs(wrapped, fakes)
            if any(wrapped[i].requires_grad for i in mutated):
                raise CaptureError("the graph writes to an input that gradients flow through")
            inner = [unwrap_functional(output) for output in outputs]
            check_aliases(wrapped, fakes, mutated, outputs, inner)
            made = [(i, unwrap_functional(gradient)) for i, gradient in gradients]
            recording.allow_copy = True
            for i in mutated:
                fakes[i].copy_(renewed[i])
    inputs = {id(w): fake for w, fake in zip(wrapped, fakes, strict=True)}
    finals = iter([inputs.get(id(o), final) for o, final in zip(outputs, inner, strict=True)])
    results = [next(finals) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    places = {id(leaf): k for k, leaf in enumerate(leaves)}
    return JointRecording(
        recorder.finish([*results, *(gradient for _, gradient in made)]),
        [*results, *(gradient for _, gradient in made)],
        mutated,
        [(places[id(t)], tangent) for t, tangent in zip(targets, tangents, strict=True)],
        [(i, len(results) + k) for k, (i, _) in enumerate(made)],
        forms + [PLAIN] * len(made),
    )


def _new_tangent(output: torch.Tensor) -> torch.Tensor:
    """A fake tensor for an output's gradient. Its strides are guessed to be the output's."""
    strides = output.stride() if _is_dense(output) else None
    sizes, dtype, device = output.shape, output.dtype, output.device
    disable_functionalization()
    try:
        if strides is None:
            return torch.empty(sizes, dtype=dtype, device=device)
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    finally:
        enable_functionalization(reapply_views=True)


def _gradients(
    wrapped: Sequence[torch.Tensor],
    targets: Sequence[torch.Tensor],
    tangents: Sequence[torch.Tensor],
) -> list[tuple[int, torch.Tensor]]:
    """Inputs and their gradients, each gradient in memory of its own."""
    numbers = [i for i, w in enumerate(wrapped) if w.requires_grad and w.is_leaf]
    given = [to_functional_tensor(tangent) for tangent in tangents]
    found = torch.autograd.grad(targets, [wrapped[i] for i in numbers], given, allow_unused=True)
    taken = {storage_of(tensor) for tensor in (*wrapped, *given)}
    gradients: list[tuple[int, torch.Tensor]] = []
    with torch.no_grad():
        for i, gradient in zip(numbers, found, strict=True):
            if gradient is None:
                continue
            gradient = _like_parameter(gradient, wrapped[i])
            if storage_of(gradient) in taken:
                gradient = gradient.clone()
            taken.add(storage_of(gradient))
            gradients.append((i, gradient))
    if not gradients:
        raise CaptureError("no input gets a gradient")
    return gradients
