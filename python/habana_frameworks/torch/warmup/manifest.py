"""The manifest of a warm-up: a YAML file of models and the shapes that they are called with.

docs/warmup.md describes it. Values are plain; every error names the file's line and the field.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from ..dynamo.settings.options import OptionError
from ..dynamo.settings.resolve import resolve
from ..internal.regular_file import read_regular_file
from .buckets import MAX_SHAPES, Buckets, exponential, linear

VERSION = 1
_AXIS_NAMES = ("batch", "sequence")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_KEY = re.compile(r"[0-9a-f]{64}")
_DTYPES = [
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "bool",
]
# The dtypes to which a model may be cast and in which autocast may compute.
_FLOATS = ("float32", "bfloat16", "float16")


class ManifestError(ValueError):
    """Says what is wrong with a manifest, and where."""


@dataclass(frozen=True)
class InputSpec:
    """A tensor among a model's inputs: whole numbers from low to high, both included, or normal
    numbers where low is None. A size is a number or the name of an axis."""

    shape: tuple[int | str, ...]
    dtype: torch.dtype
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Entry:
    """A model and its grid."""

    name: str
    line: int
    model: str  # package.module:function, the function that makes the model
    arguments: dict[str, Any]  # the arguments of that function
    inputs: str | dict[str, InputSpec]  # a function of (batch, sequence), or the inputs to make
    buckets: Buckets
    dtype: torch.dtype | None
    autocast: torch.dtype | None
    options: dict[str, Any]  # options of hpu_backend


@dataclass(frozen=True)
class Recorded:
    """A graph of a recorded run."""

    label: str  # for people
    key: str  # front-end key, 64 hexadecimal digits


@dataclass(frozen=True)
class Manifest:
    path: str
    entries: list[Entry]
    recorded: list[Recorded]
    parallel: int | None


def read_manifest(path: str | Path) -> Manifest:
    """Reads a manifest. Raises ManifestError and OSError."""
    content = read_regular_file(path)
    try:
        return parse_manifest(content.decode(), str(path))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ManifestError(f"{path}:{line}: not UTF-8: {error.reason}") from error


def parse_manifest(text: str, path: str) -> Manifest:
    """Parses a manifest. Raises ManifestError. path: named in errors."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ManifestError(f"{path}:{line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"{path}: not YAML: {error}") from error
    if root is None:
        raise ManifestError(f"{path}:1: the file is empty")
    fields = _Fields(path, "", root)
    version = fields.take("version", _whole)
    if version != VERSION:
        raise fields.error(
            "version", f"{version} is of another release of hpu-compile: this one reads {VERSION}"
        )
    parallel = fields.take("parallel", _whole, default=None)
    entries = [_entry(one) for one in fields.list_of_fields("models")]
    recorded = [_recorded(one) for one in fields.list_of_fields("recorded")]
    fields.end()
    if not entries and not recorded:
        raise fields.error("models", "it is missing, and so is `recorded`")
    for i, entry in enumerate(entries):
        if entry.name in [other.name for other in entries[:i]]:
            raise ManifestError(f"{path}:{entry.line}: name: there are two models {entry.name!r}")
    count = sum(len(entry.buckets) for entry in entries)
    if count > MAX_SHAPES:
        raise fields.error("models", f"they have {count} shapes together, at most {MAX_SHAPES}")
    return Manifest(path, entries, recorded, parallel)


class _Fields:
    """The fields of one mapping, taken one by one; end() refuses fields that nobody took."""

    def __init__(self, path: str, where: str, node: yaml.Node) -> None:
        self._path, self._where = path, where
        self.line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise ManifestError(f"{path}:{self.line}: {where or 'the file'}: expected fields")
        self._nodes: dict[str, yaml.Node] = {}
        self._known: list[str] = []
        for key, value in node.value:
            name = str(key.value)
            if name in self._nodes:
                raise ManifestError(
                    f"{path}:{key.start_mark.line + 1}: {where}{name}: it is there twice"
                )
            self._nodes[name] = value

    def error(self, name: str, text: str) -> ManifestError:
        node = self._nodes.get(name)
        line = self.line if node is None else node.start_mark.line + 1
        return ManifestError(f"{self._path}:{line}: {self._where}{name}: {text}")

    def _missing(self, name: str) -> ManifestError:
        """The error names the field that may be meant by a misspelt name."""
        near = difflib.get_close_matches(name, set(self._nodes) - set(self._known), 1)
        return self.error(name, "it is missing" + (f"; is `{near[0]}` meant?" if near else ""))

    def names(self) -> list[str]:
        return list(self._nodes)

    def is_mapping(self, name: str) -> bool:
        return isinstance(self._nodes.get(name), yaml.MappingNode)

    def take(self, name: str, convert: Callable[[Any], Any], default: Any = ...) -> Any:
        """convert: raises ValueError, whose text says what was expected."""
        self._known.append(name)
        if name not in self._nodes:
            if default is ...:
                raise self._missing(name)
            return default
        loader = yaml.SafeLoader("")
        try:
            value = loader.construct_document(self._nodes[name])
            return convert(value)
        except yaml.MarkedYAMLError as error:
            raise self.error(name, str(error.problem)) from error
        except (ValueError, TypeError) as error:
            raise self.error(name, str(error)) from error
        finally:
            loader.dispose()

    def fields(self, name: str) -> _Fields:
        self._known.append(name)
        if name not in self._nodes:
            raise self._missing(name)
        return _Fields(self._path, f"{self._where}{name}.", self._nodes[name])

    def list_of_fields(self, name: str) -> list[_Fields]:
        self._known.append(name)
        node = self._nodes.get(name)
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self.error(name, "expected a list of at least one")
        where = f"{self._where}{name}"
        return [_Fields(self._path, f"{where}[{i}].", one) for i, one in enumerate(node.value)]

    def end(self) -> None:
        for name in self._nodes:
            if name not in self._known:
                raise self.error(name, f"unknown; expected one of {', '.join(self._known)}")


def _entry(fields: _Fields) -> Entry:
    model = fields.take("model", _function)
    options = fields.take("options", _mapping, default={})
    priority = fields.take("priority", _one_of("warm-up", "interactive"), default="warm-up")
    try:
        resolve({**options, "compile_priority": priority})
    except OptionError as error:
        raise fields.error("options", str(error)) from error
    batch = _axis(fields, "batch")
    sequence = _axis(fields, "sequence", None)
    try:
        buckets = Buckets(batch, sequence)
    except ValueError as error:
        raise fields.error("batch", str(error)) from error
    entry = Entry(
        fields.take("name", _text, default=model.rpartition(":")[2]),
        fields.line,
        model,
        fields.take("arguments", _mapping, default={}),
        _inputs(fields, sequence is not None),
        buckets,
        fields.take("dtype", _dtype(*_FLOATS), default=None),
        fields.take("autocast", _dtype(*_FLOATS), default=None),
        {**options, "compile_priority": priority},
    )
    fields.end()
    return entry


def _recorded(fields: _Fields) -> Recorded:
    recorded = Recorded(fields.take("graph", _text), fields.take("key", _key))
    fields.end()
    return recorded


def _axis(fields: _Fields, name: str, default: Any = ...) -> Any:
    """The sizes of an axis; the default if the axis is not there."""
    if not fields.is_mapping(name):
        return fields.take(name, _sizes, default)
    axis = fields.fields(name)
    kind = axis.names()
    if len(kind) != 1 or kind[0] not in ("linear", "exponential"):
        raise fields.error(name, "expected a list of sizes, `linear: ...` or `exponential: ...`")
    grid = axis.fields(kind[0])
    low, high = grid.take("low", _whole), grid.take("high", _whole)
    try:
        if kind[0] == "linear":
            sizes = linear(
                low,
                high,
                grid.take("step", _whole),
                grid.take("pad_max", _whole, default=None),
                grid.take("pad_percent", float, default=None),
            )
        else:
            count = grid.take("count", _whole, default=None)
            sizes = exponential(low, high, count, grid.take("step", _whole, default=1))
    except ManifestError:
        raise
    except ValueError as error:
        raise fields.error(name, str(error)) from error
    grid.end()
    return sizes


def _inputs(fields: _Fields, has_sequence: bool) -> str | dict[str, InputSpec]:
    if not fields.is_mapping("inputs"):
        function: str = fields.take("inputs", _function)
        return function
    inputs = fields.fields("inputs")
    return {name: _input(inputs.fields(name), has_sequence) for name in inputs.names()}


def _input(fields: _Fields, has_sequence: bool) -> InputSpec:
    def shape(value: Any) -> tuple[int | str, ...]:
        names = _AXIS_NAMES if has_sequence else _AXIS_NAMES[:1]
        for size in value if isinstance(value, list) else [value]:
            if size not in names and (type(size) is not int or size < 1):
                raise ValueError(f"{size!r}: expected whole numbers and {' or '.join(names)}")
        if not isinstance(value, list):
            raise ValueError("expected a list of sizes")
        return tuple(value)

    dtype = fields.take("dtype", _dtype(*_DTYPES))
    spec = InputSpec(
        fields.take("shape", shape),
        dtype,
        fields.take("low", _integer, default=None if dtype.is_floating_point else 0),
        fields.take("high", _integer, default=None if dtype.is_floating_point else 1),
    )
    if (spec.low is None) != (spec.high is None):
        raise fields.error("low" if spec.low is None else "high", "expected both or none")
    if spec.low is not None and spec.high is not None and spec.low > spec.high:
        raise fields.error("low", f"{spec.low} is above high, {spec.high}")
    fields.end()
    return spec


def _whole(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r}: expected a whole number above 0")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r}: expected a whole number")
    return value


def _sizes(value: Any) -> list[int]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{value!r}: expected a list of sizes")
    return sorted({_whole(size) for size in value})


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r}: expected text")
    return value


def _function(value: Any) -> str:
    if not isinstance(value, str) or not _FUNCTION.fullmatch(value):
        raise ValueError(f"{value!r}: expected package.module:function")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{value!r}: expected names with values")
    return value


def _key(value: Any) -> str:
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise ValueError(f"{value!r}: expected a front-end key of 64 hexadecimal digits")
    return value


def _one_of(*words: str) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if value not in words:
            raise ValueError(f"{value!r}: expected {' or '.join(words)}")
        return str(value)

    return convert


def _dtype(*names: str) -> Callable[[Any], torch.dtype]:
    def convert(value: Any) -> torch.dtype:
        if value not in names:
            raise ValueError(f"{value!r}: expected one of {', '.join(names)}")
        found: torch.dtype = getattr(torch, value)
        return found

    return convert
