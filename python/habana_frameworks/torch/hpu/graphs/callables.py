"""Functions and modules whose forward and backward are captured for one form of arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .calls import CapturedCall
from .module_state import ModuleState
from .values import trees
from .wrapped import tell_what_changes_nothing

_Callable = Callable[..., Any]


def make_graphed_callables(
    callables: _Callable | Sequence[_Callable],
    sample_args: Sequence[Any],
    warmups: int = 0,
    allow_unused_input: bool = False,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    *,
    num_warmup_iters: int | None = None,
    pool: object = None,
) -> Any:
    """Captures each callable with its backward, for arguments like `sample_args`.

    callables: a function or module, or a sequence of them; sample_args is then one of tuples.
    A module is changed in place: as long as it is in the same training mode, its calls are replays.
    Arguments may be given by name; tensors among them have the sizes of the sample, and other
    values are those of the sample. warmups, or torch.cuda's num_warmup_iters: how often a callable
    is run before. allow_unused_input: an argument or parameter may have no gradient. The other
    arguments change nothing.
    """
    tell_what_changes_nothing(
        asynchronous=asynchronous, disable_tensor_cache=disable_tensor_cache, dry_run=dry_run
    )
    warmups = warmups if num_warmup_iters is None else num_warmup_iters
    if callable(callables):
        return _graphed(callables, _as_tuple(sample_args), warmups, allow_unused_input)
    return tuple(
        _graphed(function, _as_tuple(args), warmups, allow_unused_input)
        for function, args in zip(callables, sample_args, strict=True)
    )


def _as_tuple(args: Any) -> tuple[Any, ...]:
    return (args,) if isinstance(args, torch.Tensor) else tuple(args)


def _graphed(
    function: _Callable, sample_args: tuple[Any, ...], warmups: int, allow_unused: bool
) -> Any:
    if not isinstance(function, nn.Module):
        return _Graphed(function, None, sample_args, warmups, allow_unused)
    _check_module(function)
    call = _Graphed(function.forward, function, sample_args, warmups, allow_unused)
    _replace_forward(function, call)
    return function


def _check_module(module: nn.Module) -> None:
    hooks = (module._backward_hooks, module._forward_hooks, module._forward_pre_hooks)
    if any(hooks):
        raise RuntimeError("a module with hooks cannot be captured: register them afterwards")
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError("a module whose buffers require gradients cannot be captured")


def _replace_forward(module: nn.Module, call: _Graphed) -> None:
    forward, training = module.forward, module.training

    def replayed(*args: Any, **kwargs: Any) -> Any:
        return (call if module.training == training else forward)(*args, **kwargs)

    module.forward = replayed


class _Graphed:
    """One captured function."""

    def __init__(
        self,
        function: _Callable,
        module: nn.Module | None,
        sample_args: tuple[Any, ...],
        warmups: int,
        allow_unused: bool,
    ) -> None:
        self._function = function
        self._state = ModuleState(module)
        # Tensors of its own, so that none is there twice.
        arguments = trees().tree_map_only(
            torch.Tensor,
            lambda t: t.detach().to("hpu").requires_grad_(t.requires_grad),
            sample_args,
        )
        for _ in range(warmups):
            function(*arguments)
        tensors, self._others = _taken_apart(arguments)
        self._forms = [(t.shape, t.stride(), t.dtype) for t in tensors]
        self._state.look()
        self._call = CapturedCall(
            function, (arguments, {}), tensors, self._state, differentiable=True
        )
        self._call.capture_backward(allow_unused)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = self._by_position(args, kwargs)
        tensors, others = _taken_apart(args)
        if others != self._others:
            raise TypeError("the arguments of a captured function have another structure")
        given = [_in_form(t, *form) for t, form in zip(tensors, self._forms, strict=True)]
        return self._call(given, self._state.tensors())

    def _by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        bound = inspect.signature(self._function).bind(*args, **kwargs)
        if bound.kwargs:
            raise TypeError(f"a captured function takes no argument {', '.join(bound.kwargs)}")
        return bound.args


def _taken_apart(arguments: tuple[Any, ...]) -> tuple[list[torch.Tensor], Any]:
    leaves, structure = trees().tree_flatten(arguments)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    others = [None if isinstance(leaf, torch.Tensor) else (type(leaf), leaf) for leaf in leaves]
    return tensors, (structure, others)


def _in_form(
    tensor: torch.Tensor, sizes: torch.Size, strides: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    if tensor.shape != sizes or tensor.dtype != dtype:
        raise TypeError(
            f"a captured function was given {tensor.dtype} {list(tensor.shape)} in the place of "
            f"{dtype} {list(sizes)}"
        )
    if tensor.stride() == strides and tensor.device.type == "hpu":
        return tensor
    return torch.empty_strided(sizes, strides, dtype=dtype, device="hpu").copy_(tensor)
