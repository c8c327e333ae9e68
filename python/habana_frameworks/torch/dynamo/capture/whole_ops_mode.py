"""The calls that are recorded before PyTorch takes them apart, or refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...torch_compat.functionalization import (
    disable_functionalization,
    enable_functionalization,
    is_functional_tensor,
    to_functional_tensor,
)
from ...torch_compat.ops import OpOverload, is_functionalized
from ...torch_compat.transforms import is_functorch_wrapped_tensor
from ...torch_compat.trees import tree_leaves, tree_map_only
from .recorded_ops import drop_constants
from .recorder import RecordingMode, storage_of, unwrap_functional
from .whole_ops import find_handler
from .wire import CaptureError


def _is_transformed(values: Any) -> bool:
    """True inside a functorch transform (vmap), where a call does not mean its ATen op."""
    return any(
        isinstance(leaf, torch.Tensor)
        and is_functorch_wrapped_tensor(leaf)
        and not is_functional_tensor(leaf)
        for leaf in tree_leaves(values)
    )


class WritingOpsMode(TorchFunctionMode):
    """Records operators of user code that write to arguments. The tensors are functional wrappers,
    and functionalization is on."""

    def __init__(self, recording: RecordingMode) -> None:
        super().__init__()
        self.recording = recording

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _writes_unseen(func) and not _is_transformed((args, kwargs)):
            return self._record_writes(func, args, kwargs)
        return func(*args, **kwargs)

    def _record_writes(self, op: OpOverload, args: Any, kwargs: Any) -> Any:
        """Records an operator of user code that writes to arguments, as
        backend/torch/programs/written_arguments.h says, and gives the arguments their new
        values."""
        leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if torch.is_grad_enabled() and any(leaf.requires_grad for leaf in leaves):
            raise CaptureError(f"{op} writes to arguments, and one of them gets a gradient")
        written = _written(op, args, kwargs)
        storages = [storage_of(leaf) for leaf in leaves]
        if any(storages.count(storage_of(tensor)) > 1 for tensor in written):
            raise CaptureError(f"{op} writes to an argument that shares memory with another")
        disable_functionalization()
        try:
            given = tree_map_only(torch.Tensor, unwrap_functional, (args, kwargs))
            before = [unwrap_functional(tensor) for tensor in written]
            with self.recording.paused():
                copies = [tensor.clone() for tensor in before]
                copy_of = {id(old): new for old, new in zip(before, copies, strict=True)}
                run_args, run_kwargs = tree_map_only(
                    torch.Tensor, lambda tensor: copy_of.get(id(tensor), tensor), given
                )
                result = op(*run_args, **run_kwargs)
            returned = tree_leaves(result) if op._schema.returns else []
            drop_constants([*returned, *copies])
            self.recording.recorder.record(op, given[0], given[1], [*returned, *copies])
            result, copies = tree_map_only(torch.Tensor, to_functional_tensor, (result, copies))
        finally:
            enable_functionalization(reapply_views=True)
        for tensor, copy in zip(written, copies, strict=True):
            tensor.copy_(copy)
        return result


class WholeOpsMode(WritingOpsMode):
    """Records composite functions (whole_ops) as one call, too, also inside other Python functions.

    functional: the tensors are functional wrappers, and functionalization is on.
    """

    def __init__(self, recording: RecordingMode, functional: bool) -> None:
        super().__init__(recording)
        self.functional = functional

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler = None if autocast_active() else find_handler("call_function", func)
        if handler is not None and not _is_transformed((args, kwargs)):
            call = handler(*args, **kwargs)
            if call is not None:
                return self._record_functional(*call) if self.functional else self._record(*call)
        if self.functional:
            return super().call(func, args, kwargs)
        return func(*args, **kwargs)

    def _record(self, op: OpOverload, args: Any, kwargs: Any) -> Any:
        with self.recording.paused():
            result = op(*args, **kwargs)
        self.recording.recorder.record(op, args, kwargs, result)
        return result

    def _record_functional(self, op: OpOverload, args: Any, kwargs: Any) -> Any:
        disable_functionalization()
        try:
            args, kwargs = tree_map_only(torch.Tensor, unwrap_functional, (args, kwargs))
            result = self._record(op, args, kwargs)
            return tree_map_only(torch.Tensor, to_functional_tensor, result)
        finally:
            enable_functionalization(reapply_views=True)


def _writes_unseen(func: Any) -> bool:
    """Whether functionalization would refuse an operator because it writes."""
    is_mutable = isinstance(func, OpOverload) and func._schema.is_mutable
    return is_mutable and not is_functionalized(func)


def _written(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors to which a call writes, in the order of the arguments."""
    written: list[torch.Tensor] = []
    for place, argument in enumerate(op._schema.arguments):
        if argument.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            written += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return written


def autocast_active() -> bool:
    return torch.is_autocast_enabled("hpu") or torch.is_autocast_enabled("cpu")
