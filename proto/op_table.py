"""Reads proto/ops.yaml and refuses what breaks its rules."""

from __future__ import annotations

import itertools
import pathlib
import re
from dataclasses import dataclass

import yaml

TABLE = pathlib.Path(__file__).resolve().parent / "ops.yaml"

KINDS = (
    "opaque",
    "elementwise",
    "reduce",
    "scan",
    "normalize",
    "contract",
    "movement",
    "index",
    "source",
    "window",
    "random",
    "custom",
)
ATTR_TYPES = {"int": "kInt", "float": "kFloat", "bool": "kBool", "text": "kText", "ints": "kInts"}
DTYPE_SETS = ("float", "number", "integer", "bool", "any")
RESULT_TYPES = ("same", "bool", "i32", "i64", "declared")
# Passes and the lowering ask for these properties of an op and have no lists of ops. The comments
# go to C++.
FLAGS = {
    "cheap": "Computing it again costs less than storing and loading its result.",
    "convolution": "Its operands are worth saving in the layout that it reads.",
    "declares_sizes": "Nothing but the node itself says which sizes the result has.",
    "empty_operands": "A recipe holds it if an operand has no elements and the result has some.",
    "empty_writes": "Likewise if operand 0 has elements.",
    "gives_index": "Results are positions, whatever type the operands have.",
    "keeps_numbers": "A number beside values of bf16 or f16 keeps the precision of f32. In PyTorch "
    "the basic operations keep it; comparisons, choices, powers and remainders round it first.",
    "takes_index": "Operand 1 holds positions, whatever types the others have.",
    "updates": "A recipe may hold it as a write to the memory of operand 0.",
    "view": "The result shows memory of operand 0.",
}
# The element types of an example. "any" has those that the device calculates with, and "moved" has
# one that it only moves besides.
_FLOATS = ("f32", "bf16", "f16")
_INTEGERS = ("i64", "i32", "i16", "i8", "u8")
EXAMPLE_TYPES = {
    "float": _FLOATS,
    "number": (*_FLOATS, *_INTEGERS),
    "integer": (*_INTEGERS, "bool"),
    "whole": _INTEGERS,
    "bool": ("bool",),
    "any": (*_FLOATS, *_INTEGERS, "bool"),
    "moved": (*_FLOATS, *_INTEGERS, "bool", "f64"),
}
OP_FIELDS = {
    "op",
    "aten",
    "args",
    "attrs",
    "kind",
    "dtypes",
    "result",
    "shape",
    "results",
    "expr",
    "guid",
    "flags",
    "meaning",
    "constraints",
    "examples",
    "refused",
}
COMPOSITE_FIELDS = {"composite", "aten", "into"}


class TableError(Exception):
    """The table breaks its own rules; the message names the row."""


@dataclass(frozen=True)
class Example:
    """A program in text IR in which T stands for each of the element types."""

    types: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Op:
    name: str
    aten: tuple[str, ...]
    args: tuple[str, ...]
    attrs: dict[str, str]
    kind: str
    dtypes: str
    result: str
    shape: str
    results: int
    expr: str
    guid: str
    flags: tuple[str, ...]
    meaning: str
    constraints: dict[str, str]
    examples: tuple[Example, ...]
    refused: dict[str, str]

    @property
    def enum(self) -> str:
        return camel(self.name)

    @property
    def min_operands(self) -> int:
        return sum(arg[-1] not in "?*" for arg in self.args)

    @property
    def max_operands(self) -> int:
        return -1 if any(arg.endswith("*") for arg in self.args) else len(self.args)

    @property
    def labels(self) -> list[str]:
        """The constraints one by one: "conv_c1..c3" stands for three, "norm_c1, c2" for two."""
        found = []
        for text in self.constraints:
            rule, _, numbers = text.rpartition("_c")
            if ".." in numbers:
                first, last = (int(n.removeprefix("c")) for n in numbers.split(".."))
                found += [f"{rule}_c{n}" for n in range(first, last + 1)]
            else:
                found += [f"{rule}_c{n.strip().removeprefix('c')}" for n in numbers.split(",")]
        return found


@dataclass(frozen=True)
class Composite:
    """ATen targets without an op of their own: rewritten into the ops `into`."""

    name: str
    aten: tuple[str, ...]
    into: tuple[str, ...]


def camel(name: str) -> str:
    return "k" + "".join(part.capitalize() for part in name.split("_"))


def require(condition: bool, row: str, text: str) -> None:
    if not condition:
        raise TableError(f"{TABLE.name}: {row}: {text}")


def check_lists(name: str, row: dict) -> None:
    for field in ("aten", "args", "flags", "into"):
        require(isinstance(row.get(field) or [], list), name, f"{field} must be a list")
    for target in row.get("aten") or ():
        matched = re.fullmatch(
            r"(aten|hpu|prims|quantized_decomposed|transformers)\.\w+\.\w+", target
        )
        require(matched is not None, name, f"{target} is not NAMESPACE.NAME.OVERLOAD")


def parse_examples(row: dict) -> tuple[Example, ...]:
    """The examples of a row, or the one that an elementwise op has by itself."""
    name, kind, dtypes, args = row["op"], row.get("kind"), row.get("dtypes"), row.get("args")
    given = row.get("examples") or []
    if not given and kind == "elementwise" and row.get("guid") and not row.get("attrs"):
        operands = ", ".join(("%x", "%s")[: len(args)])
        require(len(args) <= 2, name, "an op of more than two operands needs examples")
        result = "bool" if row.get("result") == "bool" else "T"
        given = [f"%r = {name} {operands} : {result}[4,6]"]
    usual = "moved" if kind in ("movement", "index") and dtypes == "any" else dtypes
    found = []
    for example in given:
        types, text = (
            (usual, example) if isinstance(example, str) else (example["types"], example["text"])
        )
        require(types in EXAMPLE_TYPES, name, f"types of an example must be one of {EXAMPLE_TYPES}")
        found.append(Example(EXAMPLE_TYPES[types], " ".join(text.split())))
    return tuple(found)


def parse_op(row: dict) -> Op:
    name = row["op"]
    unknown = set(row) - OP_FIELDS
    require(not unknown, name, f"unknown fields {sorted(unknown)}")
    check_lists(name, row)
    kind = row.get("kind", "")
    op = Op(
        name,
        tuple(row.get("aten", ())),
        tuple(row.get("args") or ()),
        row.get("attrs") or {},
        kind,
        row.get("dtypes", ""),
        row.get("result", "same"),
        row.get("shape", "broadcast" if kind == "elementwise" else ""),
        row.get("results", 1),
        row.get("expr", ""),
        row.get("guid", ""),
        tuple(row.get("flags", ())),
        " ".join(row.get("meaning", "").split()),
        row.get("constraints") or {},
        parse_examples(row),
        {label: " ".join(text.split()) for label, text in (row.get("refused") or {}).items()},
    )
    require(re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None, name, "bad name")
    require(kind in KINDS, name, f"kind must be one of {KINDS}")
    require(op.dtypes in DTYPE_SETS, name, f"dtypes must be one of {DTYPE_SETS}")
    require(op.result in RESULT_TYPES, name, f"result must be one of {RESULT_TYPES}")
    matched = re.fullmatch(r"[a-z][a-z0-9_]*", op.shape)
    require(matched is not None, name, "shape must name a rule (compiler_server/ir/infer*.cc)")
    require(bool(op.expr) == (kind == "elementwise"), name, "expr goes with elementwise")
    require(set(op.flags) <= set(FLAGS), name, f"flags must be some of {sorted(FLAGS)}")
    # Draws need the state of a generator, which is no input of an example, and only its author can
    # say what a custom kernel computes.
    free = kind in ("random", "custom")
    require(bool(op.examples) == bool(op.guid) or free, name, "examples go with a guid")
    missing = sorted(set(op.labels) - set(op.refused))
    require(not missing, name, f"refused must have a node for {missing}")
    for attr, attr_type in op.attrs.items():
        require(attr_type in ATTR_TYPES, name, f"attribute {attr}: unknown type {attr_type}")
    return op


def parse_composite(row: dict) -> Composite:
    name = row.get("composite", "")
    require(bool(name), f"{row}", "a row starts with op: or composite:")
    unknown = set(row) - COMPOSITE_FIELDS
    require(not unknown, name, f"unknown fields {sorted(unknown)}")
    check_lists(name, row)
    return Composite(name, tuple(row["aten"]), tuple(row.get("into") or ()))


def load() -> tuple[list[Op], list[Composite]]:
    rows = yaml.safe_load(TABLE.read_text())
    ops = [parse_op(row) for row in rows if "op" in row]
    composites = [parse_composite(row) for row in rows if "op" not in row]
    for names, what in (
        ([op.name for op in ops], "op"),
        ([c.name for c in composites], "composite"),
    ):
        for before, after in itertools.pairwise(names):
            require(before < after, f"{before}, {after}", f"{what} rows must be sorted and unique")
    known = {op.name for op in ops}
    for composite in composites:
        missing = set(composite.into) - known
        require(not missing, composite.name, f"into names unknown ops {sorted(missing)}")
    seen: dict[str, str] = {}
    for row in [*ops, *composites]:
        for target in row.aten:
            require(target not in seen, row.name, f"{target} is also in {seen.get(target)}")
            seen[target] = row.name
    return ops, composites
