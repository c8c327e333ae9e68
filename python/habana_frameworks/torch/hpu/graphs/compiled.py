"""Modules and functions that hpu_backend compiles.

The reference captures what these wrap. A compiled program is launched without Python between its
operations, too, with one program for each set of shapes, and it needs no copies of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import nn

from ...internal.notices import without_effect

_Wrapped = TypeVar("_Wrapped", bound=Callable[..., Any])

_WHY = {
    "asynchronous": "launches do not wait for the device anyway",
    "disable_tensor_cache": "a program keeps no tensors between calls",
    "dry_run": "what is compiled is also run",
    "max_graphs": "every shape is a program of its own, within the bounds of options "
    "dynamic_programs and dynamic_program_mb",
    "use_lfu": "programs are kept within the bounds of option dynamic_programs",
    "allow_unused_input": "inputs may be unused",
    "have_grad_accumulation": "gradients accumulate as without it",
    "verbose": "TORCH_LOGS=habana_frameworks.torch.dynamo says what became of each graph",
}


def _tell(arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if value:
            without_effect(f"{name}={value}", _WHY[name])


def _compiled(callable_: _Wrapped) -> _Wrapped:
    """Compiles a callable. A module stays the same object; for a function there is a new one."""
    if isinstance(callable_, nn.Module):
        # nn.Module.compile leaves the classes of torch.nn as they are, and a copy of such a module
        # would not be compiled.
        call = callable_._call_impl
        callable_._compiled_call_impl = torch.compile(  # type: ignore[call-overload]
            lambda *args, **kwargs: call(*args, **kwargs),
            backend="hpu_backend",
            # all modules share the lambda's code, and so would share its limit
            isolate_recompiles=True,
        )
        return callable_
    return cast(_Wrapped, torch.compile(callable_, backend="hpu_backend"))


def wrap_in_hpu_graph(
    module: nn.Module,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> nn.Module:
    """Compiles the module in place and returns it."""
    _tell(
        {
            "asynchronous": asynchronous,
            "disable_tensor_cache": disable_tensor_cache,
            "dry_run": dry_run,
            "max_graphs": max_graphs,
        }
    )
    return _compiled(module)


def wrap_in_hpu_graph_func(
    func: _Wrapped,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> _Wrapped:
    """Returns the function, compiled."""
    _tell(
        {
            "asynchronous": asynchronous,
            "disable_tensor_cache": disable_tensor_cache,
            "dry_run": dry_run,
            "max_graphs": max_graphs,
        }
    )
    return _compiled(func)


class ModuleCacher:
    """Compiles modules for training: in place, or as a new module that shares its parameters with
    the given one."""

    def __init__(self, max_graphs: int = 10) -> None:
        self.max_graphs = max_graphs

    def __call__(
        self,
        model: nn.Module,
        use_lfu: bool = False,
        inplace: bool = True,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        have_grad_accumulation: bool = False,
        log_frequency: int = 100,
        verbose: bool = False,
        disable_tensor_cache: bool = False,
        dry_run: bool = False,
    ) -> nn.Module:
        _tell(
            {
                "use_lfu": use_lfu,
                "allow_unused_input": allow_unused_input,
                "asynchronous": asynchronous,
                "have_grad_accumulation": have_grad_accumulation,
                "verbose": verbose,
                "disable_tensor_cache": disable_tensor_cache,
                "dry_run": dry_run,
            }
        )
        if inplace:
            return _compiled(model)
        return cast(nn.Module, torch.compile(model, backend="hpu_backend"))
