"""The symbolic sizes of a Dynamo graph: their values in a call, and inputs for a call with other
values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
import torch.fx

from ..capture.inputs import example_of

# Values of the symbols, by symbol.
Sizes = dict[sympy.Symbol, int]


def _expression(value: Any) -> Any:
    return value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value)


class GraphSymbols:
    """The symbols of one graph's inputs, and where the arguments of a call show their values.

    known: False if some symbol cannot be read off the arguments of a call, or if an input is of a
    kind that cannot be made for another size.
    """

    def __init__(self, placeholders: Sequence[torch.fx.Node]) -> None:
        self._examples = [example_of(node) for node in placeholders]
        # The place of a symbol's value: the argument, then the dimension or None for a number.
        self._places: dict[sympy.Symbol, tuple[int, int | None]] = {}
        free: set[sympy.Symbol] = set()
        self._shape_env: Any = None
        for i, example in enumerate(self._examples):
            if isinstance(example, torch.SymInt):
                self._add(example, (i, None), free)
            elif isinstance(example, torch.Tensor):
                for dim, size in enumerate(example.shape):
                    self._add(size, (i, dim), free)
                for stride in example.stride():
                    free |= _expression(stride).free_symbols
        self.known = bool(free) and free == set(self._places) and self._shape_env is not None

    def _add(self, size: Any, place: tuple[int, int | None], free: set[sympy.Symbol]) -> None:
        if not isinstance(size, torch.SymInt):
            return
        self._shape_env = size.node.shape_env
        expression = _expression(size)
        free |= expression.free_symbols
        if isinstance(expression, sympy.Symbol):
            self._places.setdefault(expression, place)

    def read(self, arguments: Sequence[Any]) -> Sizes:
        """The sizes of a call."""
        return {
            symbol: int(arguments[i] if dim is None else arguments[i].shape[dim])
            for symbol, (i, dim) in self._places.items()
        }

    def allowed(self, sizes: Sizes) -> bool:
        """False if Dynamo's guards would not let a call with these sizes into the graph."""
        for symbol, value in sizes.items():
            interval = self._shape_env.var_to_range.get(symbol)
            if interval is not None and not interval.lower <= value <= interval.upper:
                return False
        # The guards are complete once Dynamo has built them, before the graph's first call.
        at = _integers(sizes)
        try:
            return all(guard.expr.xreplace(at) != sympy.false for guard in self._shape_env.guards)
        except ArithmeticError:  # a guard divides by a value that is 0 at these sizes
            return False

    def arguments(self, like: Sequence[Any], sizes: Sizes) -> list[Any]:
        """Arguments for a call with other sizes, whose content is not set. `like`: the arguments of
        some call."""
        return [
            self._argument(example, value, _integers(sizes))
            for example, value in zip(self._examples, like, strict=True)
        ]

    def _argument(self, example: Any, value: Any, at: Mapping[Any, Any]) -> Any:
        if isinstance(example, torch.SymInt):
            return int(_expression(example).xreplace(at))
        # A number that the host computes (host_numbers.py) has no example and no size.
        if not isinstance(value, torch.Tensor) or example is None:
            return value
        shape = [int(_expression(size).xreplace(at)) for size in example.shape]
        if shape == list(value.shape):
            return value
        stride = [int(_expression(stride).xreplace(at)) for stride in example.stride()]
        made = torch.empty_strided(shape, stride, dtype=value.dtype, device=value.device)
        return made.requires_grad_(value.requires_grad)


def _integers(sizes: Sizes) -> dict[Any, Any]:
    return {symbol: sympy.Integer(value) for symbol, value in sizes.items()}
