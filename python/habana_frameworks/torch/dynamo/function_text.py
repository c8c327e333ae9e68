"""Canonical text of the functions that a Dynamo graph calls: what they are, in any process.

PyTorch's functions are named; a Python function of somebody else's (transformers replaces
torch.gather on hpu) is described by its code and by all that the code refers to.
"""

from __future__ import annotations

import builtins
import hashlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

_NAMED_ROOTS = frozenset({"torch", "_operator", "operator", "builtins", "math"})
# Namespaces of PyTorch's own operators.
_OWN_OPS = frozenset({"aten", "prims", "prim"})
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype)
# What a compiler of Python puts into code, beside containers of these.
_CONSTANTS = frozenset({type(None), bool, int, float, complex, str, bytes, types.EllipsisType})


class Uncacheable(Exception):
    """The graph has no key; the text says why. It is compiled and not stored."""


def function_text(target: Any) -> str:
    """Import path of a function that is what it says it is, content included; else its content."""
    if isinstance(target, torch._ops.OpOverload):
        composite = torch._C.DispatchKey.CompositeImplicitAutograd
        if target.namespace not in _OWN_OPS and target.has_kernel_for_dispatch_key(composite):
            raise Uncacheable(f"{target} is made of other operators, by code that no name tells")
        return str(target)
    if isinstance(target, torch._ops.OpOverloadPacket):
        packet = str(target._qualified_op_name)  # which overload it is follows from the arguments
        if packet.split("::")[0] in _OWN_OPS:
            return packet
        overloads = target.overloads()
        if len(overloads) != 1:
            raise Uncacheable(f"{packet} may be any of its overloads, by code that no name tells")
        return function_text(getattr(target, overloads[0]))
    module = getattr(target, "__module__", None) or "torch"
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", "")
    if module.split(".")[0] not in _NAMED_ROOTS:
        if not isinstance(target, types.FunctionType):
            raise Uncacheable(f"function {module}.{name} is not PyTorch's")
        content = "\n".join(_content(target, set()))
        return f"{module}.{name}#{hashlib.sha256(content.encode()).hexdigest()}"
    short = getattr(target, "__name__", "")
    owners = (
        sys.modules.get(module),
        torch,
        torch._C._VariableFunctions,
        torch.Tensor,
        torch._C.TensorBase,
    )
    for owner in owners:
        if owner is not None and getattr(owner, short, None) is target:
            return f"{module}.{short}"
    raise Uncacheable(f"function {module}.{name} cannot be found again by its name")


def _content(function: types.FunctionType, seen: set[int]) -> Iterator[str]:
    """Lines that change whenever the function's behaviour may."""
    if id(function) in seen:
        return
    seen.add(id(function))
    yield from code_lines(function.__code__)
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
    for value in defaults:
        yield from _reference("default", value, seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            raise Uncacheable(f"a function refers to {name}, which has no value yet") from None
        yield from _reference(name, value, seen)
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield from _reference(name, function.__globals__[name], seen)
        elif not hasattr(builtins, name):
            yield f"attribute {name}"


# Attributes of a code object that say where its text lies, and methods and views of the others.
_PLACES_OF_CODE = frozenset(
    {"co_filename", "co_firstlineno", "co_linetable", "co_lnotab", "co_lines", "co_positions"}
    | {"co_branches", "replace", "_co_code_adaptive", "_varname_from_oparg"}
)
# What it does, and what it is called, which it may read itself.
_EFFECTS_OF_CODE = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_nlocals", "co_stacksize"),
    *("co_flags", "co_code", "co_exceptiontable", "co_names", "co_varnames", "co_freevars"),
    *("co_cellvars", "co_name", "co_qualname"),
)
_UNKNOWN_OF_CODE = sorted(
    name
    for name in {*dir(types.CodeType), *vars(types.CodeType)} - {*dir(object)}
    if name not in _PLACES_OF_CODE and name not in {*_EFFECTS_OF_CODE, "co_consts"}
)


def code_lines(code: types.CodeType) -> Iterator[str]:
    """What a code object does, without names of files and line numbers; equal in any process.
    Raises Uncacheable."""
    if _UNKNOWN_OF_CODE:
        raise Uncacheable(
            f"code objects of this Python have {', '.join(_UNKNOWN_OF_CODE)}, whose meaning is unknown"
        )
    effects = [repr(getattr(code, name)) for name in _EFFECTS_OF_CODE]
    yield f"{' '.join(effects)} {len(code.co_consts)} constants"
    for constant in code.co_consts:
        yield from _constant_lines(constant)


def _constant_lines(constant: Any) -> Iterator[str]:
    if isinstance(constant, types.CodeType):
        yield from code_lines(constant)
    elif type(constant) in (tuple, slice):
        parts = constant
        if isinstance(constant, slice):
            parts = (constant.start, constant.stop, constant.step)
        yield f"{type(constant).__name__} of {len(parts)}"
        for part in parts:
            yield from _constant_lines(part)
    elif type(constant) is frozenset:
        yield f"frozenset of {len(constant)}"  # its own order differs by process
        yield from sorted([" ".join(_constant_lines(part)) for part in constant])
    elif type(constant) in _CONSTANTS:
        yield f"{type(constant).__name__} {constant!r}"
    else:
        raise Uncacheable(f"code has a constant of type {type(constant).__name__}")


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _reference(name: str, value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, _PLAIN):
        yield f"{name} = {value!r}"
    elif isinstance(value, tuple):
        for item in value:
            yield from _reference(name, item, seen)
    elif isinstance(value, types.ModuleType):
        if value.__name__.split(".")[0] not in _NAMED_ROOTS:
            raise Uncacheable(f"a function refers to module {value.__name__}")
        yield f"{name} = module {value.__name__}"
    elif isinstance(value, types.FunctionType) and _is_foreign(value):
        yield f"{name} = function"
        yield from _content(value, seen)
    elif callable(value):
        yield f"{name} = {function_text(value)}"
    else:
        raise Uncacheable(f"a function refers to {name}, a {type(value).__name__}")


def _is_foreign(function: types.FunctionType) -> bool:
    return (function.__module__ or "").split(".")[0] not in _NAMED_ROOTS
