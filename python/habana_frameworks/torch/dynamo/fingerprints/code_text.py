"""Canonical text of a code object: what it does, equal in every process."""

from __future__ import annotations

import operator
import types
from collections.abc import Iterator
from typing import Any

# Python's compiler puts constants of these types, and containers of them, into code.
_CONSTANTS = frozenset({type(None), bool, int, float, complex, str, bytes, types.EllipsisType})


class Uncacheable(Exception):
    """The graph has no key; the text says why. It is compiled and not stored."""


# Attributes of a code object that say where its text is, and methods and views of the other
# attributes.
_PLACES_OF_CODE = frozenset(
    {"co_filename", "co_firstlineno", "co_linetable", "co_lnotab", "co_lines", "co_positions"}
    | {"co_branches", "replace", "_co_code_adaptive", "_varname_from_oparg"}
)
# Attributes that say what the code does, and its names, which the code may read itself.
_EFFECTS_OF_CODE = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_nlocals", "co_stacksize"),
    *("co_flags", "co_code", "co_exceptiontable", "co_names", "co_varnames", "co_freevars"),
    *("co_cellvars", "co_name", "co_qualname"),
)
_effects_of = operator.attrgetter(*_EFFECTS_OF_CODE)
_UNKNOWN_OF_CODE = sorted(
    name
    for name in dir(types.CodeType)
    if not name.startswith("__")
    and name not in _PLACES_OF_CODE
    and name not in {*_EFFECTS_OF_CODE, "co_consts"}
)


def code_lines(code: types.CodeType) -> Iterator[str]:
    """The text of what a code object does, without file names and line numbers. It is equal in
    every process. Raises Uncacheable."""
    if _UNKNOWN_OF_CODE:
        unknown = ", ".join(_UNKNOWN_OF_CODE)
        raise Uncacheable(f"code objects of this Python have {unknown}, whose meaning is unknown")
    yield f"{_effects_of(code)!r} {len(code.co_consts)} constants"
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
        yield f"frozenset of {len(constant)}"  # the order of a frozenset differs by process
        yield from sorted([" ".join(_constant_lines(part)) for part in constant])
    elif type(constant) in _CONSTANTS:
        yield f"{type(constant).__name__} {constant!r}"
    else:
        raise Uncacheable(f"code has a constant of type {type(constant).__name__}")
