"""Namespaces of operators."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._ops import OpOverloadPacket, _OpNamespace


class _OnDemand(_OpNamespace):
    """A namespace that calls `define` before it says that it has no operator of a name."""

    # Code that is made of a graph finds operators by their module, which begins with this.
    __module__ = _OpNamespace.__module__

    def __init__(
        self,
        name: str,
        define: Callable[[], None],
        others: frozenset[str],
        is_defining: Callable[[], bool],
    ) -> None:
        super().__init__(name)
        self._is_defining = is_defining
        self._define: Callable[[], None] | None = define
        self._others = others

    def __getattr__(self, op_name: str) -> OpOverloadPacket:
        try:
            return super().__getattr__(op_name)
        except AttributeError:
            define = self.__dict__.get("_define")
            if define is None or op_name.startswith("__") or op_name in self._others:
                raise
            if self._is_defining():
                raise
        self._define = None
        define()
        return super().__getattr__(op_name)


def define_on_demand(
    namespace: str,
    define: Callable[[], None],
    others: frozenset[str],
    is_defining: Callable[[], bool],
) -> None:
    """Makes `torch.ops.<namespace>` call `define` when it is first asked for an operator that it
    does not have. others: operators that `define` does not define. is_defining: whether this thread
    defines operators now; torch.library looks for them then."""
    setattr(torch.ops, namespace, _OnDemand(namespace, define, others, is_defining))
