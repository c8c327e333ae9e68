"""Functions whose results Dynamo takes as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def constant_in_graphs(function: Function) -> Function:
    """torch.compiler.assume_constant_result, which imports Dynamo, without that import."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
