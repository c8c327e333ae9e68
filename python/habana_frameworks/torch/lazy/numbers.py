"""Floating-point arguments of recorded calls that differ from step to step.

A learning rate that a schedule changes, or Adam's bias correction, would otherwise make a new
program of every step. Where an operator has a form in which a tensor of one element means what the
number means, the number is an element of one more input of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..torch_compat.fakes import FakeTensorMode
from ..torch_compat.trees import tree_leaves

# Operators whose second argument may be a number or a tensor of one element.
_BINARY = frozenset({"add", "sub", "mul", "div", "rsub"})
# Element types for which eager mode calculates with a number in f32, and rounds once.
_NARROW = (torch.bfloat16, torch.float16)


class VaryingNumbers:
    """The numbers of a recording, counted in the order of its calls and their arguments."""

    def __init__(self, calls: Sequence[Any], varying: Sequence[int]) -> None:
        """varying: the numbers that should be inputs of the program."""
        wanted = frozenset(varying)
        self._next = 0
        self._elements: dict[int, torch.Tensor] = {}
        self.taken: list[int] = []  # the numbers that are an input of the program, in its order

        place = 0
        for name, _, args, kwargs, _, count in calls:
            for k, number in enumerate(_counted(args, kwargs, count)):
                if place + k in wanted and _entry(name, args, kwargs, number) is not None:
                    self.taken.append(place + k)
            place += count

    def input(self, mode: FakeTensorMode) -> list[torch.Tensor]:
        """The fake tensors of the input that holds the numbers: one or none."""
        if not self.taken:
            return []
        with mode:
            return [torch.empty(len(self.taken), dtype=torch.float32, device="hpu")]

    def bind(self, inputs: Sequence[torch.Tensor]) -> None:
        """Takes the tensor in the place of the fake one."""
        self._next = 0
        if inputs:
            self._elements = dict(zip(self.taken, inputs[0].unbind(), strict=True))

    def call(self, packet: Any, op: Any, args: Any, kwargs: Any, count: int) -> Any:
        """The result of the next call of the recording, which has `count` numbers."""
        first, self._next = self._next, self._next + count
        taken = [k for k in range(count) if first + k in self._elements]
        if not taken:
            return op(*args, **kwargs)
        (k,) = taken
        number = _numbers(args, kwargs)[k]
        entry = _entry(op._schema.name, args, kwargs, number)
        return _with_element(entry, packet, args, kwargs, self._elements[first + k])


def _numbers(args: Any, kwargs: Any) -> list[float]:
    return [leaf for leaf in tree_leaves((args, kwargs)) if type(leaf) is float]


def _counted(args: Any, kwargs: Any, count: int) -> list[float]:
    """The numbers of a call that may be inputs. The numbers of arange are sizes of its result,
    which the recording does not count."""
    numbers = _numbers(args, kwargs)
    return numbers if len(numbers) == count else []


def _short(name: str) -> str:
    return name.partition("::")[2].removesuffix("_")


def _entry(name: str, args: Sequence[Any], kwargs: dict[str, Any], number: float) -> str | None:
    """How a number enters a call: "first", "operand", "alpha", "value", "fill", or not at all."""
    if len(_numbers(args, kwargs)) != 1:
        return None
    is_first = args[0] is number and len(args) > 1
    tensor = args[1] if is_first else args[0]
    if not isinstance(tensor, torch.Tensor) or tensor.dtype not in (torch.float32, *_NARROW):
        return None
    short = _short(name)
    # The argument alpha of add, sub and rsub is the integer 1 if the caller does not give it.
    if short in _BINARY and kwargs in ({}, {"alpha": 1}):
        if is_first:
            return "first"
        if len(args) > 1 and args[1] is number:
            return "operand"
    if short in ("add", "sub") and kwargs.get("alpha") is number and len(kwargs) == 1:
        return "alpha" if isinstance(args[1], torch.Tensor) else None
    if short in ("addcmul", "addcdiv") and kwargs.get("value") is number and len(kwargs) == 1:
        return "value"
    if short == "fill" and len(args) == 2 and args[1] is number:
        return "fill"
    return None


def _with_element(
    entry: str | None, packet: Any, args: Any, kwargs: Any, element: torch.Tensor
) -> Any:
    """The call with a tensor of one element in the place of its number."""
    aten: Any = torch.ops.aten
    name = _short(packet._qualified_op_name)
    self = args[1] if entry == "first" else args[0]
    wide = self.to(torch.float32) if self.dtype in _NARROW else self
    if entry == "fill":
        result = element.expand(self.shape)
    elif entry == "operand" and name == "rsub":
        result = element - wide
    elif entry == "operand":
        result = getattr(aten, name)(wide, element)
    elif entry == "first":
        result = getattr(aten, name)(element, wide)
    elif entry == "alpha":
        change = args[1].to(torch.float32) * element
        result = wide + change if name == "add" else wide - change
    else:
        first = element * args[1].to(torch.float32)
        second = args[2].to(torch.float32)
        result = wide + (first * second if name == "addcmul" else first / second)
    if packet._qualified_op_name.endswith("_"):
        return self.copy_(result)
    return result.to(self.dtype)
