"""The log of compiled graphs in the format that graph readers parse."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from ...internal.logger import Logger
from .wire import GRADIENT_OF_OUTPUT

logger = Logger("PT_COMPILE")

_MARKER = "####PyTorch-generated JIT IR graph for this HPU graph:####"


def _operand(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_operand, value)) + "]"
    return f"%{value.id}" if hasattr(value, "id") else repr(value)


def is_read() -> bool:
    """Whether somebody reads the log of captured graphs."""
    return logger.enabled(logging.DEBUG)


def _values(operands: Any) -> Iterator[int]:
    """The numbers of the values among operands."""
    for operand in operands:
        if isinstance(operand, (list, tuple)):
            yield from _values(operand)
        elif hasattr(operand, "id"):
            yield operand.id


class GraphListing:
    """A graph builder that also keeps a readable listing of the calls it gets.

    targets: the names of the called operators, such as "aten.add.Tensor". A training graph has a
    second list, of the calls that depend on the gradient of an output.
    """

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._inputs: list[str] = []
        self._lines: list[str] = []
        self.targets: list[list[str]] = [[]]
        self._of_gradients: set[int] = set()  # values that depend on the gradient of an output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    def add_tensor_input(self, *args: Any, **kwargs: Any) -> int:
        id: int = self._builder.add_tensor_input(*args, **kwargs)
        if any(isinstance(a, str) and a.startswith(GRADIENT_OF_OUTPUT) for a in args):
            self._of_gradients.add(id)
            self.targets[1:] = [[]]
        self._inputs.append(f"%{id} : Tensor")
        return id

    def add_call(self, target: str, args: Any, kwargs: Any, results: Any, *rest: Any) -> int:
        first: int = self._builder.add_call(target, args, kwargs, results, *rest)
        operands = [_operand(a) for a in args]
        operands += [f"{k}={_operand(v)}" for k, v in kwargs.items()]
        names = ", ".join(f"%{first + i} : Tensor" for i in range(len(results)))
        of_gradients = not self._of_gradients.isdisjoint(_values((*args, *kwargs.values())))
        if of_gradients:
            self._of_gradients.update(range(first, first + len(results)))
        self.targets[of_gradients].append(target)
        namespace, op, _ = target.split(".")
        self._lines.append(f"  {names} = {namespace}::{op}({', '.join(operands)})")
        return first

    def log(self) -> None:
        """Writes marker and listing as one debug message."""
        body = "\n".join([f"graph({', '.join(self._inputs)}):", *self._lines])
        logger.debug("{}", f"{_MARKER}\n{body}")
