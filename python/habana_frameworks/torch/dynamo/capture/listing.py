"""The log of compiled graphs in the format that graph readers parse."""

from __future__ import annotations

from typing import Any

from ...internal.logger import Logger

logger = Logger("PT_COMPILE")

_MARKER = "####PyTorch-generated JIT IR graph for this HPU graph:####"


def _operand(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_operand, value)) + "]"
    return f"%{value.id}" if hasattr(value, "id") else repr(value)


class GraphListing:
    """A graph builder that also keeps a readable listing of the calls it gets."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._inputs: list[str] = []
        self._lines: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    def add_tensor_input(self, *args: Any, **kwargs: Any) -> int:
        id: int = self._builder.add_tensor_input(*args, **kwargs)
        self._inputs.append(f"%{id} : Tensor")
        return id

    def add_call(self, target: str, args: Any, kwargs: Any, results: Any, *rest: Any) -> int:
        first: int = self._builder.add_call(target, args, kwargs, results, *rest)
        operands = [_operand(a) for a in args]
        operands += [f"{k}={_operand(v)}" for k, v in kwargs.items()]
        names = ", ".join(f"%{first + i} : Tensor" for i in range(len(results)))
        namespace, op, _ = target.split(".")
        self._lines.append(f"  {names} = {namespace}::{op}({', '.join(operands)})")
        return first

    def log(self) -> None:
        """Writes marker and listing as one debug message."""
        body = "\n".join([f"graph({', '.join(self._inputs)}):", *self._lines])
        logger.debug("{}", f"{_MARKER}\n{body}")
