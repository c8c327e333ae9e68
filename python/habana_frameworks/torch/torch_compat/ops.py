"""The classes of operators."""

from __future__ import annotations

import importlib
from types import ModuleType

import torch
from torch._ops import HigherOrderOperator as HigherOrderOperator
from torch._ops import OpOverload as OpOverload
from torch._ops import OpOverloadPacket as OpOverloadPacket


def takes_numbers(op: OpOverload) -> bool:
    """Whether Python code may give the operator a number where it declares a tensor."""
    allowed: bool = torch._C._should_allow_numbers_as_tensors(op._schema.name.partition("::")[2])
    return allowed


def writes(schema: str) -> bool:
    """Whether a schema without namespace says that a call writes to an argument."""
    mutable: bool = torch._C.parse_schema(schema).is_mutable
    return mutable


def import_module(name: str) -> ModuleType:
    """Imports a module, or finds a namespace of operators, which is a module that no import
    finds."""
    parent, _, namespace = name.rpartition(".")
    if parent == "torch.ops":
        found: ModuleType = getattr(torch.ops, namespace)
        return found
    return importlib.import_module(name)
