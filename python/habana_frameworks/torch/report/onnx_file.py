"""A drawing as an ONNX model, for Netron: structure, types and attributes, no weights.

ONNX is a protobuf message; this module writes its wire format (field numbers of onnx.proto,
IR version 8). Operators are in a domain of our own, so no ONNX runtime takes it for a model.
"""

from __future__ import annotations

import re
from collections import defaultdict

from .document import Drawing, Node

_IR_VERSION = 8
_DOMAIN = "hpu"
# TensorProto.DataType by the names of text IR; names that are missing have no type.
_ELEMENT_TYPES = {
    "f32": 1,
    "u8": 2,
    "i8": 3,
    "i16": 5,
    "i32": 6,
    "i64": 7,
    "bool": 9,
    "f16": 10,
    "f64": 11,
    "bf16": 16,
    "f8e4m3": 17,
    "f8e5m2": 19,
}
_TYPE = re.compile(r"(\w+)\[([\d,]*)\]")
_STRING_ATTRIBUTE = 3


def to_onnx(drawing: Drawing, name: str) -> bytes:
    """The bytes of a .onnx file."""
    operands: dict[int, list[Node]] = defaultdict(list)
    for source, target in drawing.edges:
        operands[target].append(drawing.nodes[source])
    graph = _text(2, name)
    for node in drawing.nodes:
        if node.kind == "input":
            graph += _message(11, _value(node))
        elif node.kind == "output":
            for result in operands[node.id]:
                graph += _message(12, _value(result))
        else:
            graph += _message(1, _node(node, operands[node.id]))
            graph += _message(13, _value(node))
    opset = _text(1, _DOMAIN) + _number(2, 1)
    return (
        _number(1, _IR_VERSION) + _text(2, "hpu_backend") + _message(7, graph) + _message(8, opset)
    )


def _operator(op: str) -> str:
    """Netron shows the text after the last point, so "aten.slice.Tensor" becomes "slice_Tensor"."""
    return op.removeprefix("aten.").replace(".", "_")


def _name(node: Node) -> str:
    """The name of a node's result: a number for results, their own names for inputs."""
    return node.op if node.kind == "input" else f"v{node.id}"


def _node(node: Node, operands: list[Node]) -> bytes:
    data = b"".join(_text(1, _name(operand)) for operand in operands)
    data += _text(2, _name(node)) + _text(3, f"n{node.id}") + _text(4, _operator(node.op))
    for name, value in (("detail", node.detail), ("source", node.source)):
        if value:
            attribute = _text(1, name) + _text(4, value) + _number(20, _STRING_ATTRIBUTE)
            data += _message(5, attribute)
    return data + _text(7, _DOMAIN)


def _value(node: Node) -> bytes:
    """ValueInfoProto of a node's (first) result."""
    data = _text(1, _name(node))
    found = _TYPE.match(node.type)
    if found is None or found[1] not in _ELEMENT_TYPES:
        return data
    sizes = [int(size) for size in found[2].split(",") if size]
    shape = b"".join(_message(1, _number(1, size)) for size in sizes)
    tensor = _number(1, _ELEMENT_TYPES[found[1]]) + _message(2, shape)
    return data + _message(2, _message(1, tensor))


def _varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode(errors="replace"))
