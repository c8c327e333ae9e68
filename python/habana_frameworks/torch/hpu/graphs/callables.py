"""Functions and modules whose forward and backward are captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .capture import HPUGraph, graph

_Callable = Callable[..., Any]


def _trees() -> Any:
    # A PyTorch without this private module loses captures of functions, and nothing else.
    from ...torch_compat import trees

    return trees


def make_graphed_callables(
    callables: _Callable | Sequence[_Callable],
    sample_args: Sequence[Any],
    warmups: int = 0,
    allow_unused_input: bool = False,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
) -> Any:
    """Captures each callable with its backward, for arguments like `sample_args`.

    callables: a function or module, or a sequence of them; sample_args is then one of tuples.
    A module is changed in place: as long as it is in the same training mode, its calls are replays.
    The results of a call are overwritten by the next one; gradients are not. Arguments and results
    must be tensors, or trees of tensors; arguments have the sizes of the sample. warmups: how often
    a callable is run before. allow_unused_input: an argument or parameter may have no gradient. The
    other arguments change nothing: replays do not wait, and a capture keeps no more tensors than it
    needs.
    """
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
    if isinstance(function, nn.Module):
        _check_module(function)
        call = _Captured(
            function.forward, sample_args, list(function.parameters()), warmups, allow_unused
        )
        _replace_forward(function, call)
        return function
    return _Captured(function, sample_args, [], warmups, allow_unused)


def _check_module(module: nn.Module) -> None:
    hooks = (module._backward_hooks, module._forward_hooks, module._forward_pre_hooks)
    if any(hooks):
        raise RuntimeError("a module with hooks cannot be captured: register them afterwards")
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError("a module whose buffers require gradients cannot be captured")


def _replace_forward(module: nn.Module, call: _Captured) -> None:
    forward, training = module.forward, module.training

    def replayed(*args: Any) -> Any:
        return call(*args) if module.training == training else forward(*args)

    module.forward = replayed


class _Captured:
    """One captured function."""

    def __init__(
        self,
        function: _Callable,
        sample_args: tuple[Any, ...],
        parameters: list[nn.Parameter],
        warmups: int,
        allow_unused: bool,
    ) -> None:
        flat, self._structure = _trees().tree_flatten(sample_args)
        if not all(isinstance(leaf, torch.Tensor) for leaf in flat):
            raise TypeError("the arguments of a captured function must be tensors")
        self._inputs = [
            leaf.detach().to("hpu", copy=True).requires_grad_(leaf.requires_grad) for leaf in flat
        ]
        self._parameters = [p for p in parameters if p.requires_grad]
        for _ in range(warmups):
            function(*_trees().tree_unflatten(self._inputs, self._structure))
        self._forward = HPUGraph()
        with graph(self._forward):
            results = function(*_trees().tree_unflatten(self._inputs, self._structure))
        leaves, self._result_structure = _trees().tree_flatten(results)
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise TypeError("the results of a captured function must be tensors")
        self._outputs = leaves
        self._backward = HPUGraph()
        self._tangents: list[torch.Tensor | None] = []
        self._gradients: list[torch.Tensor | None] = []
        self._capture_backward(allow_unused)

    def _capture_backward(self, allow_unused: bool) -> None:
        differentiable = [out for out in self._outputs if out.requires_grad]
        self._tangents = [
            torch.empty_like(out) if out.requires_grad else None for out in self._outputs
        ]
        wanted = [t for t in (*self._inputs, *self._parameters) if t.requires_grad]
        found: list[torch.Tensor | None] = []
        if differentiable and wanted:
            with graph(self._backward):
                found = list(
                    torch.autograd.grad(
                        differentiable,
                        wanted,
                        [tangent for tangent in self._tangents if tangent is not None],
                        allow_unused=allow_unused,
                    )
                )
        gradients = iter(found)
        self._gradients = [
            next(gradients, None) if t.requires_grad else None
            for t in (*self._inputs, *self._parameters)
        ]
        self._outputs = [out.detach() for out in self._outputs]

    def __call__(self, *args: Any) -> Any:
        flat, structure = _trees().tree_flatten(args)
        if structure != self._structure:
            raise TypeError("the arguments of a captured function have another structure")
        results = _Replay.apply(self, *flat, *self._parameters)
        return _trees().tree_unflatten(list(results), self._result_structure)

    def run(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Replays the forward."""
        with torch.no_grad():
            for static, new in zip(self._inputs, inputs, strict=False):
                if not static.is_set_to(new):
                    static.copy_(new, non_blocking=True)
        self._forward.replay()
        return tuple(out.detach() for out in self._outputs)

    def run_backward(
        self, tangents: Sequence[torch.Tensor | None]
    ) -> tuple[torch.Tensor | None, ...]:
        """Replays the backward."""
        for static, new in zip(self._tangents, tangents, strict=True):
            if static is not None and new is not None:
                static.copy_(new, non_blocking=True)
            elif static is not None:
                static.zero_()
        self._backward.replay()
        # Autograd may keep a gradient that it gets as the parameter's own.
        return tuple(None if g is None else g.clone() for g in self._gradients)


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, captured: _Captured, *inputs: torch.Tensor) -> Any:
        ctx.captured = captured
        return captured.run(inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        return None, *ctx.captured.run_backward(tangents)
