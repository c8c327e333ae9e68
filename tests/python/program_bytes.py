"""Writes program containers (program/program.h) by hand, for tests of the executor."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Any

DTYPES = {"f32": 1, "bf16": 2, "f64": 4, "i32": 8, "i64": 9, "bool": 10}
INPUT, BUFFER, CONSTANT, EAGER = range(4)
TENSOR, AS_INPUT, INPUT_VIEW, NONE, INT, FLOAT, BOOL = range(7)
VIEW = 2  # graph/alias_form.h


@dataclass(frozen=True)
class Spec:
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0

    def encode(self) -> bytes:
        strides = contiguous(self.sizes) if self.strides is None else self.strides
        return (
            struct.pack("<B", DTYPES[self.dtype])
            + vector("q", self.sizes)
            + vector("q", strides)
            + struct.pack("<q", self.offset)
        )


@dataclass(frozen=True)
class Ref:
    """A program tensor as an argument."""

    tensor: int


@dataclass
class Eager:
    op: str
    args: list[Any]
    outputs: list[int]
    overload: str = ""


@dataclass
class Launch:
    recipe: int
    bindings: dict[str, int]


@dataclass
class Program:
    """inputs: (Spec | None for a scalar, mutated, on_cpu); tensors: (placement, index, Spec);
    recipes: bytes; outputs: (kind, index[, Spec or value])."""

    inputs: list[tuple[Spec | None, bool, bool]]
    tensors: list[tuple[int, int, Spec]]
    steps: list[Eager | Launch]
    outputs: list[tuple[Any, ...]]
    buffers: list[int] = field(default_factory=list)
    constants: list[tuple[Spec, bytes]] = field(default_factory=list)
    recipes: list[bytes] = field(default_factory=list)
    function: str = "forward"

    def encode(self) -> bytes:
        out = b"HPUPROG\0" + struct.pack("<I", 4)
        out += count(self.recipes)
        for recipe in self.recipes:
            out += hashlib.sha256(recipe).digest() + struct.pack("<Q", len(recipe))
        out += count(self.constants)
        for spec, data in self.constants:
            out += spec.encode() + struct.pack("<Q", len(data)) + data
        out += struct.pack("<I", 1) + self.encode_function()
        out += struct.pack("<IIIB", 0, 0, 0, 0)  # saved values, tangents, gradients, deterministic
        return out + hashlib.sha256(out).digest()

    def encode_function(self) -> bytes:
        out = text(self.function) + count(self.inputs)
        for spec, mutated, on_cpu in self.inputs:
            out += struct.pack("<B", spec is None) + (b"" if spec is None else spec.encode())
            out += struct.pack("<BB", mutated, on_cpu)
        out += vector("Q", self.buffers)
        out += count(self.tensors)
        for placement, index, spec in self.tensors:
            out += struct.pack("<BI", placement, index) + spec.encode()
        out += count(self.steps)
        for step in self.steps:
            out += encode_step(step)
        out += count(self.outputs)
        for output in self.outputs:
            out += encode_output(*output)
        return out + struct.pack("<II", len(self.steps), 0)


def contiguous(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def count(items: Any) -> bytes:
    return struct.pack("<I", len(items))


def text(value: str) -> bytes:
    octets = value.encode(errors="surrogateescape")
    return count(octets) + octets


def vector(code: str, values: Any) -> bytes:
    return count(values) + struct.pack(f"<{len(values)}{code}", *values)


def encode_output(kind: int, index: int, value: Any = None) -> bytes:
    out = struct.pack("<BBB", kind, 1, 0)
    if kind in (TENSOR, AS_INPUT, INPUT_VIEW):
        out += struct.pack("<I", index)
    if kind == INPUT_VIEW:
        out += value.encode() + struct.pack("<B", VIEW)
    if kind in (INT, BOOL):
        out += struct.pack("<q", int(value))
    if kind == FLOAT:
        out += struct.pack("<d", value)
    return out


def encode_step(step: Eager | Launch) -> bytes:
    if isinstance(step, Launch):
        out = struct.pack("<BI", 0, step.recipe) + count(step.bindings)
        for name, tensor in step.bindings.items():
            out += text(name) + struct.pack("<IB", tensor, 0)
        return out
    out = struct.pack("<B", 1) + text(step.op) + text(step.overload) + count(step.args)
    out += b"".join(encode_argument(value) for value in step.args)
    return out + vector("I", step.outputs) + text("by hand")


def encode_argument(value: Any) -> bytes:
    if value is None:
        return b"\0"
    if isinstance(value, Ref):
        return struct.pack("<BI", 1, value.tensor)
    if isinstance(value, bool):
        return struct.pack("<BB", 4, value)
    if isinstance(value, int):
        return struct.pack("<Bq", 2, value)
    if isinstance(value, float):
        return struct.pack("<Bd", 3, value)
    if isinstance(value, str):
        return struct.pack("<B", 5) + text(value)
    if isinstance(value, list):
        return struct.pack("<B", 9) + count(value) + b"".join(map(encode_argument, value))
    raise TypeError(f"no encoding for {value!r}")
