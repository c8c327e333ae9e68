"""Finds the functions of PyTorch that belong to the name of an op."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional

Function = Callable[..., Any]
_HOMES = (torch.nn.functional, torch, torch.Tensor)
# torch.nn.functional's embedding is made of torch's, which is the one that is cast.
_ONLY_IN_TORCH = frozenset({"embedding"})


def _found(homes: tuple[Any, ...], *names: str) -> Iterator[Function]:
    for home in homes:
        for name in names:
            function = getattr(home, name, None)
            if callable(function):
                yield function


def forms(name: str) -> list[Function]:
    """The functions, methods and operators of an op that return a new tensor."""
    homes = (torch,) if name in _ONLY_IN_TORCH else _HOMES
    operators = [f"__{name}__", f"__r{name}__"]
    if name == "div":
        operators += ["__truediv__", "__rtruediv__"]
    return [*_found(homes, name), *_found((torch.Tensor,), *operators)]


def in_place_forms(name: str) -> list[Function]:
    """The functions and methods of an op that write into their first input."""
    return list(_found(_HOMES, f"{name}_"))


def _no_override(*_: Any) -> bool:
    return False


def _body(function: Any, names: dict[str, Any]) -> Function:
    """The function without its first question, which is whether a mode wants to see the call."""
    for question in (
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
    ):
        names[question] = _no_override
    body = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    body.__kwdefaults__ = function.__kwdefaults__
    return body


def bodies(known: frozenset[Function]) -> dict[Function, Function]:
    """Returns what to call in place of a function so that a mode sees the functions in it: those of
    torch.nn.functional that Python makes of others and that are not known themselves, and those
    that run a backward, which may compute activations again."""
    names = dict(vars(torch.nn.functional))
    composed = [
        function
        for function in vars(torch.nn.functional).values()
        if isinstance(function, types.FunctionType)
        and function.__module__ == torch.nn.functional.__name__
        and function not in known
    ]
    made: dict[Function, Function] = {function: _body(function, names) for function in composed}
    runners: tuple[Any, ...] = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
    for function in runners:
        made[function] = _body(function, dict(function.__globals__))
    return made
