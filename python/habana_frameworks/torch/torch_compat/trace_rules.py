"""How Dynamo treats a module's calls and PyTorch's functions; importing it imports Dynamo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.trace_rules import add as call_without_tracing
from torch._dynamo.trace_rules import get_torch_obj_rule_map
from torch._dynamo.variables.torch import get_overridable_functions

__all__ = ["call_without_tracing", "treat_alike"]


def treat_alike(function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Gives the replacement of one of PyTorch's functions a place in Dynamo's tables, which may
    have been made before."""
    rules = get_torch_obj_rule_map()
    if function in rules:
        rules[replacement] = rules[function]
    if function in get_overridable_functions():
        get_overridable_functions().add(replacement)
