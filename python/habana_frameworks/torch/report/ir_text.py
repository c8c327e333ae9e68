"""Reads text IR, as the compiler dumps it (compiler_server/ir/text.h), into nodes and edges."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..dynamo.records.graph_label import plain_function
from .document import Drawing, Node
from .op_kinds import MOVEMENTS, PRODUCTS

# Larger graphs are not drawn, so that layout and browser stay fast.
MAX_DRAWN_NODES = 1500

_VALUE = re.compile(r"%[A-Za-z0-9_.]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_CALL = re.compile(r"^\s*((?:%[\w.]+(?:, )?)+ = )?([a-z_][\w.]*)\b ?(.*)$", re.DOTALL)
_INPUT = re.compile(r"(%[\w.]+): (scalar|[^,()]*?\[[^\]]*\](?:\{[^}]*\})?)( cpu)?(?:, ?|\)|\s|$)")


@dataclass
class _Line:
    """One node of the text."""

    results: list[str]
    op: str
    operands: list[str]
    attributes: str
    type: str
    source: str


def parse(text: str, stage: str, captured: bool) -> Drawing:
    """Parameters and buffers of modules are shown with the nodes that read them; other inputs are
    nodes.

    captured: the text is from before the passes, where every node is a call of PyTorch's; after the
    passes such calls run eagerly.
    """
    inputs, lines, ends = _read(text)
    weights = {name for name in inputs if _is_weight(name)}
    owner: dict[str, int] = {}
    nodes: list[Node] = []
    edges: list[tuple[int, int]] = []
    drawn = lines[:MAX_DRAWN_NODES]
    used = {name for line in drawn for name in line.operands} | set(ends)

    def add(op: str, type: str, kind: str, detail: str = "", source: str = "") -> int:
        nodes.append(Node(len(nodes), op, type, kind, detail, source))
        return nodes[-1].id

    def connect(names: list[str], to: int) -> None:
        edges.extend((owner[name], to) for name in dict.fromkeys(names) if name in owner)

    for name, type in inputs.items():
        if name not in weights and name in used:
            owner[name] = add(name.removeprefix("%"), type, "input")
    for line in drawn:
        read = [f"{_short(n)} {inputs[n]}" for n in line.operands if n in weights]
        detail = "; ".join([*([line.attributes] if line.attributes else []), *read])
        number = add(line.op, line.type, _kind(line.op, captured), detail, line.source)
        connect(line.operands, number)
        for result in line.results:
            owner[result] = number
    if ends and len(drawn) == len(lines):
        connect(ends, add("output", "", "output"))
    return Drawing(stage, nodes, edges, len(nodes) + len(lines) - len(drawn))


def _read(text: str) -> tuple[dict[str, str], list[_Line], list[str]]:
    """The inputs with their types, the nodes, and the values that leave the graph."""
    head, _, body = text.partition(") ")
    if body.startswith("-> "):
        body = body[3:]
    _, _, body = body.partition("{\n")
    inputs = {name: type for name, type, _ in _INPUT.findall(head.partition("(")[2] + ")")}
    lines: list[_Line] = []
    ends: list[str] = []
    for raw in body.splitlines():
        code, _, source = raw.rpartition("  // ") if "  // " in raw else (raw, "", "")
        word = code.split(maxsplit=1)[0] if code.strip() else ""
        if word == "const":
            continue
        if word in ("mutate", "return"):
            ends += [v for v in _VALUE.findall(code) if v not in ends]
        elif word.startswith("%") or " = " in code:
            lines.append(_line(code, plain_function(source)))
    return inputs, lines, ends


def _line(code: str, source: str) -> _Line:
    definition, _, type = code.strip().rpartition(" : ")
    found = _CALL.match(definition)
    if found is None:
        return _Line([], "?", [], "", type, source)
    results, op, rest = found.groups()
    strings = _STRING.findall(rest)
    if op == "aten" and strings:
        op = strings[0].strip('"').removesuffix(".default")
    plain = _STRING.sub("", rest)
    attributes = plain.partition("{")[2].rpartition("}")[0]
    return _Line(_VALUE.findall(results or ""), op, _VALUE.findall(plain), attributes, type, source)


def _kind(op: str, captured: bool) -> str:
    if "." in op:
        return "compute" if captured else "eager"
    if op in PRODUCTS:
        return "product"
    return "movement" if op in MOVEMENTS else "compute"


def _is_weight(name: str) -> bool:
    """Whether Dynamo made this name for a value that it found on a module."""
    return "_parameters_" in name or "_buffers_" in name


def _short(name: str) -> str:
    """ "%l_self_modules_layer_modules_0_parameters_weight_" becomes "layer.0.weight"."""
    path = re.sub(r"^%l_(?:self|[a-z]\w*?)_(?=modules_|parameters_|buffers_)", "", name)
    path = re.sub(r"(?:^|_)(?:modules|parameters|buffers)_", ".", path)
    return path.strip("._")
