"""Tracing of code that writes to tensors: PyTorch's functionalization turns writes into new values.

A write to a graph input becomes one `aten.copy_.default` onto the input after everything else; all
other writes disappear. This is used for a whole graph, or for one node whose function writes only
to tensors of its own (one_hot, for example).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
import torch.nn.functional as F

from ...torch_compat.fakes import FakeTensorMode
from ...torch_compat.functionalization import (
    DisablePythonDispatcher,
    disable_functionalization,
    enable_functionalization,
    enable_python_dispatcher,
    to_functional_tensor,
)
from ...torch_compat.graph_calls import multilabel_margin_loss
from ...torch_compat.ops import HigherOrderOperator
from ...torch_compat.trees import tree_flatten, tree_unflatten
from .aliases import alias_forms
from .recorder import RecordingMode, SnippetRecorder, storage_of, unwrap_functional
from .snippet import Snippet
from .whole_ops_mode import WholeOpsMode
from .wire import CaptureError


@dataclass(frozen=True)
class FunctionalRecording:
    snippet: Snippet
    result: Any  # fake tensors
    mutated: list[int]  # inputs that were written to
    forms: list[str]  # by leaf of the result (aliases.py)


class Functionalization:
    """A context manager: writes become new values inside the block."""

    def __enter__(self) -> None:
        enable_functionalization(reapply_views=True)

    def __exit__(self, *_: object) -> None:
        disable_functionalization()


def elements_share_memory(tensor: torch.Tensor) -> bool:
    """True unless every element certainly has a place of its own (expand and as_strided may share
    places)."""
    reached = 0
    dims = zip(tensor.stride(), tensor.shape, strict=True)
    for stride, size in sorted((stride, size) for stride, size in dims if size > 1):
        if stride <= reached:
            return tensor.numel() > 0
        reached += stride * (size - 1)
    return False


def check_aliases(
    wrapped: Sequence[torch.Tensor],
    fakes: Sequence[torch.Tensor],
    mutated: Sequence[int],
    outputs: Sequence[torch.Tensor],
    inner: Sequence[torch.Tensor],
) -> None:
    """Refuses graphs whose sharing of memory the recorded graph would not reproduce."""
    storages = [storage_of(fake) for fake in fakes]
    for i in mutated:
        if storages.count(storages[i]) > 1:
            raise CaptureError("the graph writes to an input that shares memory with another one")
        if elements_share_memory(fakes[i]):
            raise CaptureError("the graph writes to an input whose elements share memory")
    written = {storage_of(wrapped[i]) for i in mutated}
    own = {id(w) for w in wrapped}
    for k, output in enumerate(outputs):
        if id(output) in own:
            continue
        if storage_of(output) in written:
            raise CaptureError("the graph returns a view of an input that it writes to")
        for other, other_inner in zip(outputs[:k], inner[:k], strict=True):
            together = storage_of(output) == storage_of(other)
            if together != (storage_of(inner[k]) == storage_of(other_inner)):
                raise CaptureError("outputs share memory after a write through one of them")


def renewed_inputs(
    wrapped: Sequence[torch.Tensor], fakes: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[int]]:
    """The present values of the inputs, and which of the inputs were written to."""
    mutated: list[int] = []
    renewed = [unwrap_functional(w) for w in wrapped]
    for i, (fake, new) in enumerate(zip(fakes, renewed, strict=True)):
        if new is fake:
            continue
        if new.shape != fake.shape or new.dtype != fake.dtype:
            raise CaptureError("the graph changes the shape or type of an input in place")
        mutated.append(i)
    return renewed, mutated


def record_functional(
    mode: FakeTensorMode,
    fakes: Sequence[torch.Tensor],
    run: Callable[[list[torch.Tensor]], Any],
) -> FunctionalRecording:
    """Runs `run` on functional wrappers of `fakes` and records the functional calls."""
    recorder = SnippetRecorder(fakes)
    recording = RecordingMode(recorder)
    # Without the Python dispatcher the writes of batch_norm to its statistics would not be seen.
    grad_mode = torch.set_grad_enabled(torch.is_grad_enabled())
    with mode, recording, enable_python_dispatcher(), grad_mode:
        wrapped = [to_functional_tensor(fake) for fake in fakes]
        with Functionalization(), WholeOpsMode(recording, functional=True):
            result = run(wrapped)
        renewed, mutated = renewed_inputs(wrapped, fakes)
        leaves, spec = tree_flatten(result)
        forms = alias_forms(wrapped, leaves, autograd=False)
        outputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        inner = [unwrap_functional(output) for output in outputs]
        check_aliases(wrapped, fakes, mutated, outputs, inner)
        recording.allow_copy = True
        for i in mutated:
            fakes[i].copy_(renewed[i])
    inputs = {id(w): fake for w, fake in zip(wrapped, fakes, strict=True)}
    finals = iter([inputs.get(id(o), final) for o, final in zip(outputs, inner, strict=True)])
    values = [next(finals) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    final_result = tree_unflatten(values, spec)
    return FunctionalRecording(recorder.finish(final_result), final_result, mutated, forms)


def copies_blocks(
    input: torch.Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", *_: Any,
    **__: Any,
) -> bool:  # fmt: skip
    """Whether F.interpolate copies each pixel of its images into a block of pixels."""
    if mode not in ("nearest", "nearest-exact") or input.dim() != 4:
        return False
    if size is None:
        factors = (
            [scale_factor] * 2 if isinstance(scale_factor, (int, float)) else list(scale_factor)
        )
        return all(float(factor).is_integer() for factor in factors)
    sizes = [size] * 2 if isinstance(size, int) else list(size)
    return all(new % old == 0 for new, old in zip(sizes, input.shape[2:], strict=True))


_ATEN: Any = torch.ops.aten
# Functions for which the Python dispatcher has kernels that give wrong values.
_WRONG_IN_PYTHON = {
    F.multilabel_margin_loss,
    multilabel_margin_loss,
    _ATEN.multilabel_margin_loss,
    _ATEN.multilabel_margin_loss.default,
    _ATEN.multilabel_margin_loss_forward,
    _ATEN.multilabel_margin_loss_forward.default,
}


def _drops(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> bool:
    return training and p != 0 and input.numel() > 0


class GraphRunner(torch.fx.Interpreter):
    """Runs a graph on functional tensors."""

    def __init__(self, module: torch.fx.GraphModule, attributes: dict[str, torch.Tensor]) -> None:
        super().__init__(module)
        self.attributes = attributes
        # The reason of a refusal is one sentence without a trace of the user's program.
        self.extra_traceback = False

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.attributes[str(target)]

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, HigherOrderOperator):
            raise CaptureError(f"the graph has higher-order operation {target}")
        if target is F.dropout and not _drops(*args, **kwargs):
            # Returns the input itself, so that writes reach it; the Python dispatcher would copy
            # it.
            return args[0] if args else kwargs["input"]
        copies = target is F.interpolate and copies_blocks(*args, **kwargs)
        if copies or target in _WRONG_IN_PYTHON:
            # The Python dispatcher would make gathers of blocks, and scatters of their gradient.
            with DisablePythonDispatcher():
                return super().call_function(target, args, kwargs)
        return super().call_function(target, args, kwargs)
