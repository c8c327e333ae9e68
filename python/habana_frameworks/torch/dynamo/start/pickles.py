"""The bytes of a stored start.

Names that Dynamo made up for its globals ("__compiled_fn_1_...") are marked and get new names in
the process that reads them, where other globals may have the old names. Code objects and sources of
guards are written by their fields, without the values that a source has computed from names. Only
content that this user has signed is read (files.py). Of that, only the classes and functions that
make up a start are looked up; no other is looked up or imported.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import pickle
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

import torch

from ...torch_compat.tracing import Source, get_code_keys

_OWN_PACKAGE = __name__.rpartition(".")[0]
# The modules in which sources of guards are defined.
_SOURCES = frozenset({"torch._dynamo.source", "torch._guards"})
_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)
# Classes beside those of this package, and functions that make their instances, by module.
_CLASSES = {
    "builtins": {"set", "frozenset", "complex", "range", "slice"},
    "collections": {"OrderedDict", "deque"},
    "torch": {"Size", "device"},
    "torch._dynamo.pgo": {"FrameStateSizeEntry", "AutoDynamic", "AutoUnset", "InferStride"},
}


def _make_code(fields: tuple[Any, ...]) -> types.CodeType:
    return types.CodeType(*fields)


def _make_source(kind: type, fields: tuple[Any, ...]) -> Source:
    source: Source = kind(*fields)
    return source


def _is_known(module: str, name: str) -> bool:
    """Whether the object may be in a start. Looks only into modules that starts consist of."""
    if name in _CLASSES.get(module, ()):
        return True
    if module not in _SOURCES and module not in ("torch", __name__):
        return module.rpartition(".")[0] == _OWN_PACKAGE and _is_own(module, name)
    value = getattr(sys.modules[module], name, None)
    if module == __name__:
        return value in (_make_code, _make_source)
    if module == "torch":
        return isinstance(value, _CONSTANTS)
    return isinstance(value, type) and issubclass(value, (Source, enum.Enum))


def _is_own(module: str, name: str) -> bool:
    value = getattr(sys.modules.get(module), name, None)
    return isinstance(value, type) and dataclasses.is_dataclass(value)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, names: Collection[str]) -> None:
        super().__init__(file, protocol=5)
        self._names = names

    def persistent_id(self, obj: Any) -> Any:
        return obj if type(obj) is str and obj in self._names else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType)):
            if not _is_known(obj.__module__, obj.__qualname__):
                raise pickle.PicklingError(f"{obj!r} is not part of a start")
            return NotImplemented
        if isinstance(obj, types.CodeType):
            return _make_code, (tuple(getattr(obj, key) for key in get_code_keys()),)
        if isinstance(obj, Source) and dataclasses.is_dataclass(obj):
            fields = [f.name for f in dataclasses.fields(obj) if f.init]
            return _make_source, (type(obj), tuple(getattr(obj, name) for name in fields))
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, rename: Callable[[str], str]) -> None:
        super().__init__(file)
        self._rename = rename

    def find_class(self, module: str, name: str) -> Any:
        if not _is_known(module, name):
            raise pickle.UnpicklingError(f"{module}.{name} is not part of a start")
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> str:
        return self._rename(pid)


def dump(value: Any, names: Collection[str]) -> bytes:
    """The bytes of a start. names: strings that another process replaces."""
    file = io.BytesIO()
    _Pickler(file, names).dump(value)
    return file.getvalue()


def load(content: bytes, rename: Callable[[str], str]) -> Any:
    return _Unpickler(io.BytesIO(content), rename).load()
