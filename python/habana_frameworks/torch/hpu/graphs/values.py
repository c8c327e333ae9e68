"""Takes arguments and results of a captured call apart: into tensors, and everything else."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import io
import pickle
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

_TENSORS = (torch.Tensor, torch.nn.Parameter)
# Values that a capture takes as they are. A call with another one is another capture.
_CONSTANTS = (
    bool,
    int,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    enum.Enum,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
)
_CONSTANT_TYPES = frozenset(_CONSTANTS)


@functools.cache
def trees() -> Any:
    """The module of nested containers. A PyTorch without its names loses the captures of calls, and
    nothing else."""
    from ...torch_compat import trees as module

    return module


class NotCapturable(Exception):
    """Says why a call runs without a capture."""


def read(value: Any, tensors: dict[int, torch.Tensor], key: list[Any]) -> None:
    """Adds the tensors of an argument to `tensors`, each once, by its id; and to `key` the words
    that two arguments share if a capture with one serves the other."""
    kind = type(value)
    if kind in _TENSORS:
        _read_tensor(value, tensors, key)
    elif kind in _CONSTANT_TYPES:
        key += (kind, value)
    elif kind is tuple or kind is list:
        key += (kind, len(value))
        for item in value:
            read(item, tensors, key)
    elif kind is dict:
        key += (kind, len(value))
        for name, item in value.items():
            key.append(name)
            read(item, tensors, key)
    elif kind is float or kind is complex:
        key += (kind, repr(value))  # 0.0 and -0.0 differ, and nan is like nan
    elif kind is slice:
        key.append(kind)
        read((value.start, value.stop, value.step), tensors, key)
    elif isinstance(value, _CONSTANTS):
        key += (kind, value)
    elif isinstance(value, torch.Tensor):
        raise NotCapturable(f"an argument is a {kind.__name__}, which is no plain tensor")
    else:
        parts = _parts(value)
        if parts is None:
            raise NotCapturable(f"an argument has a {kind.__name__}, which may hold tensors")
        key.append(kind)
        read(parts[0], tensors, key)


def _read_tensor(tensor: torch.Tensor, tensors: dict[int, torch.Tensor], key: list[Any]) -> None:
    if id(tensor) in tensors:
        key.append(list(tensors).index(id(tensor)))
        return
    if tensor.device.type != "hpu" or tensor.layout != torch.strided:
        raise NotCapturable(f"an argument is a tensor on {tensor.device} ({tensor.layout})")
    tensors[id(tensor)] = tensor
    key += (tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)


def _parts(value: Any) -> tuple[Any, Callable[[Any], Any]] | None:
    """Returns the parts of a container of another type than Python's own, and a function that
    makes one of such parts; None for a value that is no container."""
    node = trees().node_of(value)
    if node is not None:
        children, context = node.flatten_fn(value)
        return list(children), lambda parts: node.unflatten_fn(parts, context)
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return list(value), lambda parts: type(value)(*parts)
        return list(value), lambda parts: type(value)(parts)
    if isinstance(value, Mapping):
        return dict(value), lambda parts: _updated(value, parts)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names}, lambda parts: _changed(value, parts)
    return None


def _updated(value: Any, items: dict[Any, Any]) -> Any:
    new = copy.copy(value)
    for name, item in items.items():
        new[name] = item
    return new


def _changed(value: Any, fields: dict[str, Any]) -> Any:
    new = copy.copy(value)
    for name, item in fields.items():
        object.__setattr__(new, name, item)  # frozen ones, too
    return new


def with_tensors(value: Any, new: dict[int, Any]) -> Any:
    """The value with other tensors. `new` has them by the ids of those that `value` has."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return new.get(id(value), value)
    if kind in _CONSTANT_TYPES:
        return value
    if kind is tuple or kind is list:
        return kind(with_tensors(item, new) for item in value)
    if kind is dict:
        return {name: with_tensors(item, new) for name, item in value.items()}
    if isinstance(value, (*_CONSTANTS, float, complex, slice)):
        return value
    parts = _parts(value)
    if parts is not None:
        return parts[1](with_tensors(parts[0], new))
    return copy.deepcopy(value, dict(new))


class _Finder(pickle.Pickler):
    """Finds the tensors in any object."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found: list[torch.Tensor] = []

    def persistent_id(self, thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor):
            return None
        self.found.append(thing)
        return len(self.found)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors on hpu that a result has, each once."""
    found: dict[int, torch.Tensor] = {}
    _find(value, found)
    return list(found.values())


def _find(value: Any, found: dict[int, torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        if value.device.type == "hpu":
            found[id(value)] = value
    elif isinstance(value, (list, tuple)):
        for item in value:
            _find(item, found)
    elif isinstance(value, Mapping):
        for item in value.values():
            _find(item, found)
    elif not isinstance(value, (*_CONSTANTS, float, complex, slice)):
        parts = _parts(value)
        if parts is not None:
            _find(parts[0], found)
            return
        finder = _Finder()
        try:
            finder.dump(value)
        except Exception as error:
            raise NotCapturable(f"its result has a {type(value).__name__}: {error}") from error
        _find(finder.found, found)
