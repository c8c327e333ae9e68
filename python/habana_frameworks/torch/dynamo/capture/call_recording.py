"""Records one call, or one node of a Dynamo graph, on fake tensors (recorder, functional)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...torch_compat.fakes import FakeTensorMode
from ...torch_compat.trees import tree_map_only
from .functional import record_functional
from .recorder import RecordingMode, SnippetRecorder
from .snippet import Snippet
from .whole_ops_mode import WholeOpsMode
from .wire import NeedsFunctionalization


def call_target(op: str, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if op == "call_method":
        return getattr(args[0], target)(*args[1:], **kwargs)
    return target(*args, **kwargs)


def record_call(
    mode: FakeTensorMode,
    fakes: Sequence[torch.Tensor],
    op: str,
    target: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> tuple[Snippet, Any]:
    """Runs one call on fake tensors and records it. Raises NeedsFunctionalization if it writes to a
    tensor."""
    recorder = SnippetRecorder(fakes)
    try:
        recording = RecordingMode(recorder)
        with mode, recording, WholeOpsMode(recording, functional=False):
            result = call_target(op, target, args, kwargs)
        return recorder.finish(result), result
    except NeedsFunctionalization:
        return _record_with_writes(mode, fakes, op, target, args, kwargs)


def _record_with_writes(
    mode: FakeTensorMode,
    fakes: Sequence[torch.Tensor],
    op: str,
    target: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> tuple[Snippet, Any]:
    """Records a call that writes to tensors of its own; raises if it writes to its arguments."""

    def run(wrapped: list[torch.Tensor]) -> Any:
        functional = {id(fake): w for fake, w in zip(fakes, wrapped, strict=True)}
        arguments, keywords = tree_map_only(
            torch.Tensor, lambda t: functional[id(t)], (list(args), kwargs)
        )
        return call_target(op, target, arguments, keywords)

    recording = record_functional(mode, fakes, run)
    if recording.mutated:
        raise NeedsFunctionalization(str(target))
    return recording.snippet, recording.result
