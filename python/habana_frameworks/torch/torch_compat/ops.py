"""The classes of operators, and operators whose names are private."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import torch.library
from torch._ops import HigherOrderOperator as HigherOrderOperator
from torch._ops import OpOverload as OpOverload
from torch._ops import OpOverloadPacket as OpOverloadPacket

assert_async: OpOverload = torch.ops.aten._assert_async.msg


def takes_numbers(op: OpOverload) -> bool:
    """Whether Python code may give the operator a number where it declares a tensor."""
    allowed: bool = torch._C._should_allow_numbers_as_tensors(op._schema.name.partition("::")[2])
    return allowed


def writes(schema: str) -> bool:
    """Whether a schema without namespace says that a call writes to an argument."""
    mutable: bool = torch._C.parse_schema(schema).is_mutable
    return mutable


def is_functionalized(op: OpOverload) -> bool:
    """Whether PyTorch turns the writes of an operator into new values. It refuses those that only
    have kernels for devices."""
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)
        for key in ("Functionalize", "CompositeImplicitAutograd")
    )


def compiled_kernel(op: OpOverload, key: str) -> Callable[..., Any] | None:
    """The kernel for a dispatch key that compiled code has registered; None where there is none, or
    where Python has registered it."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
        return None
    if f"{op.name().replace('::', '/')}/{key}" in torch.library._impls:
        return None
    dispatch_key = getattr(torch._C.DispatchKey, key)

    def call(*args: Any, **kwargs: Any) -> Any:
        return op._op_dk(dispatch_key, *args, **kwargs)

    return call


def import_module(name: str) -> ModuleType:
    """Imports a module, or finds a namespace of operators, which is a module that no import
    finds."""
    parent, _, namespace = name.rpartition(".")
    if parent == "torch.ops":
        found: ModuleType = getattr(torch.ops, namespace)
        return found
    return importlib.import_module(name)
