"""Namespaces of operators."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch._ops import OpOverloadPacket, _OpNamespace

_in_thread = threading.local()  # .defines: operators are being defined


@contextmanager
def defining() -> Iterator[None]:
    """In the block, an operator that there is not yet does not make its namespace define the rest:
    torch.library looks for operators while it defines them."""
    before = getattr(_in_thread, "defines", False)
    _in_thread.defines = True
    try:
        yield
    finally:
        _in_thread.defines = before


class _OnDemand(_OpNamespace):
    """A namespace that calls `define` before it says that it has no operator of a name."""

    # Code that is made of a graph finds operators by their module, which begins with this.
    __module__ = _OpNamespace.__module__

    def __init__(self, name: str, define: Callable[[], None], others: frozenset[str]) -> None:
        super().__init__(name)
        self._define: Callable[[], None] | None = define
        self._others = others

    def __getattr__(self, op_name: str) -> OpOverloadPacket:
        try:
            return super().__getattr__(op_name)
        except AttributeError:
            define = self.__dict__.get("_define")
            if define is None or op_name.startswith("__") or op_name in self._others:
                raise
            if getattr(_in_thread, "defines", False):
                raise
        self._define = None
        define()
        return super().__getattr__(op_name)


def define_on_demand(
    namespace: str, define: Callable[[], None], others: frozenset[str] = frozenset()
) -> None:
    """Makes `torch.ops.<namespace>` call `define` when it is first asked for an operator that it
    does not have. others: operators that `define` does not define."""
    setattr(torch.ops, namespace, _OnDemand(namespace, define, others))
