"""Differences in the arguments that a program is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from start_setup import Setup, on_device

from .difference import DIFFERENCES, Difference


def _argument(name: str, change: Callable[[Setup], None], **more: Any) -> None:
    DIFFERENCES[f"arguments: {name}"] = Difference("arguments", "after", change, **more)


def _keyword(name: str, key: str, value: Any, **more: Any) -> None:
    _argument(name, lambda setup: setup.kwargs.update({key: value}), **more)


def _inputs(name: str, change: Callable[..., Any], **more: Any) -> None:
    def apply(setup: Setup) -> None:
        setup.args = change(*setup.args)

    _argument(name, apply, **more)


_keyword("int", "count", 4)
_keyword("int that is a float", "count", 3.5)
_keyword("int that is a bool", "count", True)
_keyword("text", "mode", "product")
_keyword("list", "sizes", [1.0, 2.5])
_keyword("list for a tuple", "sizes", [1.0, 2.0], moves=False)
_keyword("longer list", "sizes", (1.0, 2.0, 3.0))
_keyword("order of a dict", "table", {"cc": 2.0, "b": 1.0})
_keyword("value of a dict", "table", {"b": 1.0, "cc": 3.0})
_keyword("key of a dict", "table", {"b": 1.0, "ddd": 2.0})
_keyword("none for a dict", "table", None)
_keyword("flag", "flag", False)
_argument("tensor for none", lambda s: s.kwargs.update(mask=on_device(4, 4, seed=2)))
_inputs("more rows", lambda x, y: (on_device(5, 4), on_device(5, 4, seed=1)))
_inputs("strides", lambda x, y: (x, y.t()))
_inputs("offset into storage", lambda x, y: (on_device(5, 4)[1:], y), hits=True)
_inputs("dtype", lambda x, y: (x, y.bfloat16()))
_inputs("device", lambda x, y: (x.cpu(), y.cpu()), moves=False)
_inputs("one tensor twice", lambda x, y: (x, x))
_inputs("views of one tensor", lambda x, y: (x, x.view(4, 4)), hits=True)
_inputs("gradient of an input", lambda x, y: (x, y.requires_grad_()), moves=False)
_inputs("parameter for a tensor", lambda x, y: (x, torch.nn.Parameter(y)), moves=False)
_inputs("broadcast row", lambda x, y: (x, y[:1]))
_inputs("keyword for a position", lambda x, y: (x, y), moves=False, hits=True)


class Tagged(torch.Tensor):
    pass


_inputs("subclass of tensor", lambda x, y: (x.as_subclass(Tagged), y), moves=False)
