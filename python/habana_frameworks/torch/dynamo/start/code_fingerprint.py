"""The code fingerprint of a trace: which code the names of the traced code led to, without a guard.

Dynamo's guards hold in the process that traced, where nobody expects F.gelu to become another
function. A new process may have patched it before its first call. So a stored start lists every
function that was traced, by module and qualified name, and every function, class and module that
the traced code names, with a digest of each; all of them are compared again before it is used.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ...torch_compat.dispatcher import TensorBase
from ...torch_compat.ops import import_module
from .describe import HEAP_TYPE, Describer, Unknown, short_digest

# (place, digest): a place is "module:qualified name", or "module version".
World = dict[tuple[str, str], str]

_VERSION = " version"
# Stands in place of a digest where the module has no such name, so that code looks for the name
# among the builtins or goes on without it.
_ABSENT = ""
# Python gives such a file name to its own start-up modules.
_FROZEN = re.compile(r"<frozen ([\w.]+)>")
_RESUMED = "torch_dynamo_resume_in_"
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, type)
# The classes in which the methods of tensors are looked up.
_TENSOR_OWNERS = (torch.Tensor, TensorBase)


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_code(constant)


def _functions_in(value: Any, seen: set[int]) -> Iterator[types.FunctionType]:
    """The functions whose code a description of `value` includes: itself, the functions that it
    wraps and closes over, and those of a class and its bases."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, types.FunctionType):
        yield value
        for cell in value.__closure__ or ():
            with_value = getattr(cell, "cell_contents", None) if _has_value(cell) else None
            yield from _functions_in(with_value, seen)
        yield from _functions_in(value.__dict__.get("__wrapped__"), seen)
    elif isinstance(value, (staticmethod, classmethod, types.MethodType)):
        yield from _functions_in(value.__func__, seen)
    elif isinstance(value, property):
        for part in (value.fget, value.fset, value.fdel):
            yield from _functions_in(part, seen)
    elif isinstance(value, (functools.partial, functools.cached_property)):
        yield from _functions_in(value.func, seen)
    elif isinstance(value, functools._lru_cache_wrapper):
        yield from _functions_in(value.__wrapped__, seen)
    elif isinstance(value, type):
        for base in value.__mro__:
            for part in vars(base).values() if base.__flags__ & HEAP_TYPE else ():
                if not isinstance(part, type):
                    yield from _functions_in(part, seen)


def _has_value(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def find(module: str, name: str) -> Any:
    """The object that a qualified name leads to now, as it is stored there (a property, not its
    value). Raises Unknown."""
    owner = sys.modules.get(module) or import_module(module)
    try:
        for part in name.split("."):
            owner = inspect.getattr_static(owner, part)
    except AttributeError:
        raise Unknown(f"{module} has no {name}") from None
    return owner


@functools.cache
def _modules_by_file(count: int) -> dict[str, str]:
    """count: the number of imported modules, so that a new import is noticed."""
    return {
        file: name
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) is not None
    }


class WorldRecorder:
    """Collects the code fingerprint of one trace. `missing` names code that cannot be found by its
    name."""

    def __init__(self, describer: Describer) -> None:
        self._describer = describer
        self.places: World = {}
        self.missing: list[str] = []
        self._classes: list[type] = []

    def add_codes(self, codes: Iterable[types.CodeType], described: Iterable[Any]) -> None:
        """described: the values that guards describe; code that is found there needs no name."""
        self._classes = [value for value in described if isinstance(value, type)]
        unique = {id(code): code for code in codes}
        unnamed = [
            code
            for code in unique.values()
            if not code.co_name.startswith(_RESUMED) and not self._add_code(code)
        ]
        if not unnamed:
            return
        seen: set[int] = set()
        known = {
            id(part)
            for value in [*described, *self._classes]
            for function in _functions_in(value, seen)
            for part in _all_code(function.__code__)
        }
        self.missing = [
            f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
            for code in unnamed
            if id(code) not in known
        ]

    def add_unbound(self, names: Iterable[tuple[str, str]]) -> None:
        """Names that code found neither in their modules nor among the builtins."""
        for module, name in names:
            self.places[module, name] = self.places["builtins", name] = _ABSENT

    def _add_code(self, code: types.CodeType) -> bool:
        """Returns False if the code is not where its name leads to."""
        files = _modules_by_file(len(sys.modules))
        frozen = _FROZEN.fullmatch(code.co_filename)
        module = frozen.group(1) if frozen else files.get(code.co_filename)
        if module is None:
            return False
        self._add_names(sys.modules[module], code)
        self._add_version(module)
        return self._add_named(module, code.co_qualname.partition(".<locals>")[0], code)

    def _add_named(self, module: str, name: str, code: types.CodeType) -> bool:
        try:
            value = find(module, name)
        except Unknown:
            return False
        for function in _functions_in(value, set()):
            if any(part is code for part in _all_code(function.__code__)):
                self._place(module, name, value)
                return True
        return False

    def _place(self, module: str, name: str, value: Any) -> None:
        key = (module, name)
        if key not in self.places:
            self.places[key] = short_digest(self._describer.loosely(value))
            if isinstance(value, type):
                self._classes.append(value)

    def _add_names(self, module: types.ModuleType, code: types.CodeType) -> None:
        names = [n for part in _all_code(code) for n in part.co_names]
        for owner in _TENSOR_OWNERS:
            for name in names:
                if name in vars(owner):
                    self._place(owner.__module__, f"{owner.__name__}.{name}", vars(owner)[name])
        self._add_names_of(module, names, set())

    def _add_names_of(self, module: types.ModuleType, names: list[str], seen: set[int]) -> None:
        """Adds what the names lead to in a module, and in the modules that they lead to: F, then
        F.gelu."""
        seen.add(id(module))
        for name in names:
            value = vars(module).get(name)
            if name not in vars(module) and name in vars(builtins):
                self.places[module.__name__, name] = _ABSENT
                if not callable(vars(builtins)[name]):  # callable builtins are guarded
                    self._place("builtins", name, vars(builtins)[name])
            elif isinstance(value, _NAMED):
                self._place(module.__name__, name, value)
            elif isinstance(value, types.ModuleType):
                self._place(module.__name__, name, value)
                if id(value) not in seen:
                    self._add_names_of(value, names, seen)

    def _add_version(self, module: str) -> None:
        package = module.partition(".")[0]
        version = getattr(sys.modules.get(package), "__version__", None)
        if version is not None:
            self.places[(package, _VERSION)] = str(version)


def difference(world: World, describer: Describer) -> str:
    """The first place where this process differs, for people; "" if there is none."""
    for (module, name), there in world.items():
        if name == _VERSION:
            here = str(getattr(sys.modules.get(module), "__version__", None))
            if here != there:
                return f"{module} has version {here}, not {there}"
            continue
        if there == _ABSENT:
            if name in vars(import_module(module)):
                return f"{module} has a name {name}, which it had not"
            continue
        try:
            here = short_digest(describer.loosely(find(module, name)))
        except (Unknown, ImportError) as error:
            return str(error)
        if here != there:
            return f"{module}.{name} is not what it was"
    return ""
