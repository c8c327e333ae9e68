"""wrap_in_hpu_graph: modules and functions whose calls are captured and replayed."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch import nn

from ...internal.notices import without_effect
from .cache import GraphCache

_Function = TypeVar("_Function", bound=Callable[..., Any])

_WHY = {
    "asynchronous": "replays never wait for the device",
    "disable_tensor_cache": "a graph keeps no tensors between calls anyway",
    "dry_run": "a capture never runs what it records",
    "hash_with_views": "strides are always part of the key",
    "have_grad_accumulation": "gradients accumulate as without it",
}


def tell_what_changes_nothing(**arguments: Any) -> None:
    """Says so of arguments that are not at their defaults."""
    for name, value in arguments.items():
        if value != (name == "hash_with_views"):
            without_effect(f"{name}={value}", _WHY[name])


class Wrapped:
    """A function whose calls are captured and replayed. A module's copy has one of its own, without
    the captures."""

    def __init__(
        self, function: Callable[..., Any] | None, module: nn.Module | None, max_graphs: int | None
    ) -> None:
        """function: None for the forward of the module's class."""
        self.__setstate__((function, module, max_graphs))

    def __getstate__(self) -> Any:
        return self._parts

    def __setstate__(self, parts: Any) -> None:
        self._parts = function, module, max_graphs = parts
        if function is None:
            function = types.MethodType(type(module).forward, module)
        functools.update_wrapper(self, function, updated=())
        self.graphs = GraphCache(function, module, max_graphs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Scripts for Gaudi give these two to a wrapped module.
        bypass = kwargs.pop("bypass_hpu_graphs", False)
        kwargs.pop("cache_tensors_list", None)
        if bypass:
            return self.graphs.function(*args, **kwargs)
        return self.graphs(*args, **kwargs)

    def clear_cache(self) -> None:
        """Drops all captures."""
        self.graphs.clear()


def wrap_in_hpu_graph(
    module: nn.Module,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
    hash_with_views: bool = True,
) -> nn.Module:
    """Captures the calls of the module and replays them, and returns the module.

    There is a capture for each set of sizes, strides and types of the arguments, of other arguments
    and of modes (training, gradients, autocast). max_graphs: the most captures; calls beyond them
    run without. A call with bypass_hpu_graphs=True runs without one, too, and the module gets the
    method clear_cache(), which drops all captures. A replay makes new results, and its backward
    works as in eager mode. Other arguments change nothing.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"wrap_in_hpu_graph takes a module, not a {type(module).__name__}")
    tell_what_changes_nothing(
        asynchronous=asynchronous,
        disable_tensor_cache=disable_tensor_cache,
        dry_run=dry_run,
        hash_with_views=hash_with_views,
    )
    wrapped = Wrapped(vars(module).get("forward"), module, max_graphs)
    module.forward = wrapped
    module.clear_cache = wrapped.clear_cache  # type: ignore[assignment]
    return module


def wrap_in_hpu_graph_func(
    func: _Function,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> _Function:
    """Does for a function what wrap_in_hpu_graph does for a module. What the function uses beside
    its arguments is read and written in its place."""
    tell_what_changes_nothing(
        asynchronous=asynchronous, disable_tensor_cache=disable_tensor_cache, dry_run=dry_run
    )
    owner = getattr(func, "__self__", None)
    module = owner if isinstance(owner, nn.Module) else None
    return cast(_Function, Wrapped(func, module, max_graphs))
