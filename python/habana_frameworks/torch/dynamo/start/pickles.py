"""The bytes of a stored start.

Names that Dynamo made up for its globals ("__compiled_fn_1_...") are marked, and read as names of
the other process's own: others' globals may have the old ones. Code objects and sources of guards
are written by their fields, without what a source has computed from names. Unpickling runs code:
only what this user has signed is read (files.py).
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import types
from collections.abc import Callable, Collection
from typing import Any

from torch._dynamo.bytecode_transformation import get_code_keys
from torch._guards import Source


def _make_code(fields: tuple[Any, ...]) -> types.CodeType:
    return types.CodeType(*fields)


def _make_source(kind: type, fields: tuple[Any, ...]) -> Source:
    source: Source = kind(*fields)
    return source


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, names: Collection[str]) -> None:
        super().__init__(file, protocol=5)
        self._names = names

    def persistent_id(self, obj: Any) -> Any:
        return obj if type(obj) is str and obj in self._names else None

    def reducer_override(self, obj: Any) -> Any:
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

    def persistent_load(self, pid: Any) -> str:
        return self._rename(pid)


def dump(value: Any, names: Collection[str]) -> bytes:
    """names: strings that another process replaces."""
    file = io.BytesIO()
    _Pickler(file, names).dump(value)
    return file.getvalue()


def load(content: bytes, rename: Callable[[str], str]) -> Any:
    return _Unpickler(io.BytesIO(content), rename).load()
