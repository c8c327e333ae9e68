"""The mode that casts: PyTorch hands it every call of a function, and Dynamo traces it.

Therefore the casts of a compiled function are calls in its graph, and a function is traced again
when casts are switched on or off. The state is in globals of this module, which Dynamo guards.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...torch_compat.constants import constant_in_graphs
from .functions import Function


class Rule(enum.Enum):
    """To which type the inputs of an op are cast."""

    BF16 = enum.auto()
    FP32 = enum.auto()
    WIDEST = enum.auto()
    FIRST = enum.auto()
    IN_PLACE = enum.auto()


RULES: dict[Function, Rule] = {}
INPUT_ALONE: dict[Function, bool] = {}
BODIES: dict[Function, Function] = {}
enabled = True
verbose = False
# With isVerbose: the operator as which Python called a method of the same implementation.
_written_as: list[Function] = []


def to_bf16(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.to(torch.bfloat16) if x.dtype == torch.float32 else x
    return _each(to_bf16, x)


def to_fp32(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.to(torch.float32) if x.dtype == torch.bfloat16 else x
    return _each(to_fp32, x)


def _each(cast: Callable[[Any], Any], x: Any) -> Any:
    """Casts the tensors in lists and tuples."""
    if type(x) is list:
        return [cast(item) for item in x]
    if type(x) is tuple:
        return tuple([cast(item) for item in x])
    return x


def _types(values: Any) -> Iterator[torch.dtype]:
    """The types of tensors in f32 and bf16, in their order."""
    for x in values:
        if isinstance(x, torch.Tensor):
            if x.dtype == torch.float32 or x.dtype == torch.bfloat16:
                yield x.dtype
        elif type(x) is list or type(x) is tuple:
            yield from _types(x)


def _chosen(rule: Rule, args: Any, kwargs: Any) -> Callable[[Any], Any] | None:
    """The cast for one call. None where no input has a type that is ever cast."""
    if rule is Rule.BF16:
        return to_bf16
    if rule is Rule.FP32:
        return to_fp32
    types = [*_types(args[:1] if rule is Rule.IN_PLACE else args)]
    if rule is not Rule.IN_PLACE:
        types += _types(kwargs.values())
    if not types:
        return None
    wide = torch.float32 in types if rule is Rule.WIDEST else types[0] == torch.float32
    return to_fp32 if wide else to_bf16


@constant_in_graphs
def _tell(func: Function, rule: Rule, bf16: bool) -> None:
    """Prints a line for one call; for a traced one, while it is traced."""
    op = _written_as.pop() if _written_as else func
    name = (to_bf16 if bf16 else to_fp32).__name__
    if rule is Rule.WIDEST or rule is Rule.IN_PLACE:
        print("casting ", op, " to ", name)
    else:
        print("casting ", op, name)


def _cast_call(rule: Rule, func: Function, args: Any, kwargs: Any) -> Any:
    cast = _chosen(rule, args, kwargs)
    if cast is None:
        return func(*args, **kwargs)
    if verbose:
        _tell(func, rule, cast is to_bf16)
    if func in INPUT_ALONE:
        if args:
            return func(cast(args[0]), *args[1:], **kwargs)
        return func(**{**kwargs, "input": cast(kwargs["input"])})
    if rule is Rule.IN_PLACE:
        # The first input is written, and is of the chosen type or of one that is never cast.
        return func(args[0], *cast(args[1:]), **{k: cast(v) for k, v in kwargs.items()})
    return func(*cast(args), **{k: cast(v) for k, v in kwargs.items()})


class CastMode(TorchFunctionMode):
    """Casts the inputs of each call by the rule of its function."""

    def __torch_function__(
        self, func: Function, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not enabled or kwargs.get("out") is not None:
            return func(*args, **kwargs)
        rule = RULES.get(func)
        if rule is not None:
            return _cast_call(rule, func, args, kwargs)
        if func is torch.Tensor.unflatten:  # Dynamo does not trace this method below a mode
            return torch.unflatten(*args, **kwargs)
        body = BODIES.get(func)
        if body is None:
            return func(*args, **kwargs)
        with self:
            return body(*args, **kwargs)


def note_operator(method: Function) -> Callable[..., Any]:
    """A method of torch.Tensor that notes as which operator Python called it, before it calls
    `method`."""

    def noting(*args: Any, **kwargs: Any) -> Any:
        _written_as[:] = [method]
        try:
            return method(*args, **kwargs)
        finally:
            _written_as.clear()

    return noting
