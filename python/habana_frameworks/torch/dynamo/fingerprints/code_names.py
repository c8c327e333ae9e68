"""Finds the names in the bytecode of a function, and those that it writes to and imports."""

from __future__ import annotations

import dis
import functools
import types


@functools.cache
def names_in(code: types.CodeType) -> tuple[str, ...]:
    """Names of globals and attributes in a function and in the functions inside it. Texts count as
    names where `getattr` is among the names."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(names_in(constant)))
        elif isinstance(constant, str) and "getattr" in code.co_names and constant.isidentifier():
            found[constant] = None
    return tuple(found)


@functools.cache
def kept_in(code: types.CodeType) -> frozenset[str]:
    """Variables of an outer function that a function writes to, and so remembers between its
    calls."""
    instructions = dis.get_instructions(code)
    return frozenset(i.argval for i in instructions if i.opname == "STORE_DEREF")


@functools.cache
def imported_by(code: types.CodeType) -> tuple[str, ...]:
    """Modules that a function imports when it runs; "" for a module of its own package."""
    found: list[str] = []
    level = 0
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_CONST" and isinstance(instruction.argval, int):
            level = instruction.argval
        elif instruction.opname == "IMPORT_NAME":
            found.append("" if level else instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += imported_by(constant)
    return tuple(found)
