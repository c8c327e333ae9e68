"""Generates from proto/ops.yaml: C++ enums, traits, element functions and the ATen map (into the
build tree), docs/ops.md and the hook's list of targets (committed).

    gen_ops.py --out DIR    write the C++ files to DIR/compiler_server/ir
    gen_ops.py --docs       rewrite the committed files
    gen_ops.py --check      fail if the table is malformed or a committed file is stale
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import re
import sys
import textwrap
from dataclasses import dataclass

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "proto" / "ops.yaml"
DOCS = ROOT / "docs" / "ops.md"
PACKAGE = ROOT / "python" / "habana_frameworks" / "torch"
ATEN_RULES = PACKAGE / "dynamo" / "capture" / "decompositions" / "aten_rules.py"
OP_KINDS = PACKAGE / "report" / "op_kinds.py"

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
)
ATTR_TYPES = {"int": "kInt", "float": "kFloat", "bool": "kBool", "text": "kText", "ints": "kInts"}
DTYPE_SETS = ("float", "number", "integer", "bool", "any")
RESULT_TYPES = ("same", "bool", "i32", "i64", "declared")
# What passes and the lowering ask about an op, in place of lists of ops. The comments go to C++.
FLAGS = {
    "cheap": "Computing it again costs less than storing and loading its result.",
    "convolution": "Its operands are worth saving in the layout that it reads.",
    "empty_operands": "A recipe holds it if an operand has no elements and the result has some.",
    "empty_writes": "Likewise if operand 0 has elements.",
    "gives_index": "Results are positions, whatever type the operands have.",
    "keeps_numbers": "A number beside values of bf16 or f16 keeps the precision of f32. In PyTorch "
    "the basic operations keep it; comparisons, choices, powers and remainders round it first.",
    "takes_index": "Operand 1 holds positions, whatever types the others have.",
    "view": "The result shows memory of operand 0.",
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
}
COMPOSITE_FIELDS = {"composite", "aten", "into"}


class TableError(Exception):
    """The table breaks its own rules; the message names the row."""


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

    @property
    def enum(self) -> str:
        return camel(self.name)

    @property
    def min_operands(self) -> int:
        return sum(arg[-1] not in "?*" for arg in self.args)

    @property
    def max_operands(self) -> int:
        return -1 if any(arg.endswith("*") for arg in self.args) else len(self.args)


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
        matched = re.fullmatch(r"(aten|hpu|prims|quantized_decomposed)\.\w+\.\w+", target)
        require(matched is not None, name, f"{target} is not NAMESPACE.NAME.OVERLOAD")


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
    )
    require(re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None, name, "bad name")
    require(kind in KINDS, name, f"kind must be one of {KINDS}")
    require(op.dtypes in DTYPE_SETS, name, f"dtypes must be one of {DTYPE_SETS}")
    require(op.result in RESULT_TYPES, name, f"result must be one of {RESULT_TYPES}")
    matched = re.fullmatch(r"[a-z][a-z0-9_]*", op.shape)
    require(matched is not None, name, "shape must name a rule (compiler_server/ir/infer*.cc)")
    require(bool(op.expr) == (kind == "elementwise"), name, "expr goes with elementwise")
    require(set(op.flags) <= set(FLAGS), name, f"flags must be some of {sorted(FLAGS)}")
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


HEADER = "// Generated by proto/gen_ops.py from proto/ops.yaml.\n"


def shapes(ops: list[Op]) -> list[str]:
    return sorted({op.shape for op in ops})


def generate_enums(ops: list[Op]) -> str:
    attrs = sorted({attr for op in ops for attr in op.attrs})
    lines = [
        HEADER + "#pragma once\n",
        "#include <cstdint>\n",
        "namespace hpu::ir {\n",
        "enum class OpKind : uint16_t {",
    ]
    lines += [f"  {op.enum}," for op in ops]
    lines += [
        "};",
        f"inline constexpr int kNumOps = {len(ops)};\n",
        "enum class OpClass : uint8_t {",
    ]
    lines += [f"  {camel(kind)}," for kind in KINDS]
    lines += ["};\n", "enum class ShapeRule : uint8_t {"]
    lines += [f"  {camel(shape)}," for shape in shapes(ops)]
    lines += ["};\n", "enum class DTypeSet : uint8_t {"]
    lines += [f"  {camel(name)}," for name in DTYPE_SETS]
    lines += ["};\n", "enum class ResultType : uint8_t {"]
    lines += [f"  {camel(name)}," for name in RESULT_TYPES]
    lines += ["};\n", "// OpTraits::flags has bit k for the k-th.", "enum class OpFlag : uint8_t {"]
    for flag, comment in FLAGS.items():
        lines += [f"  // {line}" for line in textwrap.wrap(comment, 92)]
        lines.append(f"  {camel(flag)},")
    lines += ["};\n", "enum class AttrKey : uint8_t {"]
    lines += [f"  {camel(attr)}," for attr in attrs]
    lines += [
        "};",
        f"inline constexpr int kNumAttrs = {len(attrs)};\n",
        "}  // namespace hpu::ir\n",
    ]
    return "\n".join(lines)


def generate_tables(ops: list[Op]) -> str:
    attrs = sorted({attr for op in ops for attr in op.attrs})
    lines = [HEADER]
    for op in ops:
        if op.attrs:
            specs = ", ".join(
                f"{{AttrKey::{camel(a)}, AttrType::{ATTR_TYPES[t]}}}"
                for a, t in sorted(op.attrs.items())
            )
            lines.append(f"constexpr AttrSpec {op.enum}Attrs[] = {{{specs}}};")
    lines.append("\nconstexpr OpTraits kTraits[] = {")
    for op in ops:
        spec = f"{op.enum}Attrs" if op.attrs else "{}"
        flags = sum(1 << bit for bit, flag in enumerate(FLAGS) if flag in op.flags)
        lines.append(
            f'    {{"{op.name}", OpClass::{camel(op.kind)}, {op.min_operands}, {op.max_operands}, '
            f"{op.results}, {spec}, DTypeSet::{camel(op.dtypes)}, "
            f"ResultType::{camel(op.result)}, ShapeRule::{camel(op.shape)}, "
            f'"{op.guid}", {flags:#x}}},'
        )
    lines += ["};\n", "constexpr std::string_view kAttrNames[] = {"]
    lines += [f'    "{attr}",' for attr in attrs]
    lines += ["};\n", "// Sorted by target.", "constexpr AtenRow kAtenRows[] = {"]
    pointwise = sorted(
        (target, op.enum) for op in ops if op.kind == "elementwise" for target in op.aten
    )
    lines += [f'    {{"{target}", OpKind::{enum}}},' for target, enum in pointwise]
    lines.append("};\n")
    return "\n".join(lines)


def generate_shape_rules(ops: list[Op]) -> str:
    lines = [HEADER + "// In the order of ShapeRule.\n"]
    lines += [f"HPU_SHAPE_RULE(Infer{camel(shape)[1:]})\n" for shape in shapes(ops)]
    return "".join(lines)


def generate_elements(ops: list[Op]) -> str:
    lines = [
        HEADER,
        "// Indexed by OpKind; nullptr unless elementwise.",
        "constexpr ElementFunction kElementFunctions[] = {",
    ]
    for op in ops:
        if op.kind != "elementwise":
            lines.append(f"    nullptr,  // {op.name}")
            continue
        names = [f"{arg} = v[{i}]" for i, arg in enumerate(op.args)]
        names += [f"{attr} = a[{i}]" for i, attr in enumerate(sorted(op.attrs))]
        params = "[[maybe_unused]] const double* a"
        lines += [
            f"    // {op.name}",
            f"    [](const double* v, {params}) -> double {{",
            f"      const double {', '.join(names)};",
            f"      return {op.expr};",
            "    },",
        ]
    lines.append("};\n")
    return "\n".join(lines)


def generate_docs(ops: list[Op], composites: list[Composite]) -> str:
    lines = [
        "# Ops",
        "",
        "Generated by `proto/gen_ops.py --docs` from `proto/ops.yaml`; do not edit.",
        "",
        "The column *import* names the ATen targets that become the op, and *recipe* the base name "
        "of the Synapse node; `-` means that no recipe holds the op, so that it runs eagerly.",
        "",
        f"## IR ops ({len(ops)})",
        "",
        "| op | kind | operands | attributes | types | import | recipe |",
        "|---|---|---|---|---|---|---|",
    ]
    for op in ops:
        aten = " ".join(f"`{target.removeprefix('aten.')}`" for target in op.aten) or "-"
        attrs = ", ".join(f"{k}: {v}" for k, v in sorted(op.attrs.items())) or "-"
        lines.append(
            f"| {op.name} | {op.kind} | {', '.join(op.args) or '-'} | {attrs} | "
            f"{op.dtypes} | {aten} | {op.guid or '-'} |"
        )
    lines += [
        "",
        "## Meanings and constraints",
        "",
        "Rules for all ops are in [ir.md](ir.md). The verifier's messages begin with the label.",
        "",
        "| op | meaning | constraints |",
        "|---|---|---|",
    ]
    for op in ops:
        if op.meaning or op.constraints:
            rules = "; ".join(f"[{label}] {rule}" for label, rule in op.constraints.items())
            lines.append(f"| {op.name} | {op.meaning or '-'} | {rules or '-'} |")
    lines += [
        "",
        f"## Composite ATen calls ({len(composites)})",
        "",
        "| name | import | becomes |",
        "|---|---|---|",
    ]
    for composite in composites:
        aten = " ".join(f"`{target.removeprefix('aten.')}`" for target in composite.aten)
        lines.append(
            f"| {composite.name} | {aten} | {', '.join(composite.into) or 'its operand'} |"
        )
    return "\n".join(lines) + "\n"


def aten_targets(ops: list[Op], composites: list[Composite]) -> list[str]:
    return sorted(target for row in [*ops, *composites] for target in row.aten)


def generate_kinds(ops: list[Op]) -> str:
    """The drawings of the report distinguish products and movements from all other ops."""
    lines = [
        '"""The kinds of IR ops.',
        "",
        "Generated by proto/gen_ops.py --docs from proto/ops.yaml; do not edit.",
        '"""',
    ]
    for name, kinds in (("PRODUCTS", ("contract",)), ("MOVEMENTS", ("movement", "index"))):
        names = sorted(op.name for op in ops if op.kind in kinds)
        lines += ["", f"{name} = frozenset(", "    {", *(f'        "{n}",' for n in names)]
        lines += ["    }", ")"]
    return "\n".join(lines) + "\n"


def generate_python(targets: list[str]) -> str:
    lines = [
        '"""ATen targets for which the compile server has a rule.',
        "",
        "Generated by proto/gen_ops.py --docs from proto/ops.yaml; do not edit.",
        '"""',
        "",
        "ATEN_RULES = frozenset(",
        "    {",
        *(f'        "{target}",' for target in targets),
        "    }",
        ")",
    ]
    return "\n".join(lines) + "\n"


def write_if_changed(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Generator of the op table.")
    parser.add_argument("--out", type=pathlib.Path, help="build tree to write the C++ files to")
    parser.add_argument("--docs", action="store_true", help="rewrite the committed files")
    parser.add_argument("--check", action="store_true", help="fail if a committed file is stale")
    arguments = parser.parse_args()
    if not (arguments.out or arguments.docs or arguments.check):
        parser.error("one of --out, --docs and --check")
    try:
        ops, composites = load()
    except TableError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.out:
        folder = arguments.out / "compiler_server" / "ir"
        targets = aten_targets(ops, composites)
        write_if_changed(folder / "ops_generated.h", generate_enums(ops))
        write_if_changed(folder / "ops_table.inc", generate_tables(ops))
        write_if_changed(folder / "shape_rules.inc", generate_shape_rules(ops))
        write_if_changed(folder / "element_functions.inc", generate_elements(ops))
        write_if_changed(
            folder / "aten_targets.inc", HEADER + "".join(f'"{target}",\n' for target in targets)
        )
    committed = {
        DOCS: generate_docs(ops, composites),
        ATEN_RULES: generate_python(aten_targets(ops, composites)),
        OP_KINDS: generate_kinds(ops),
    }
    for path, text in committed.items():
        if arguments.docs:
            write_if_changed(path, text)
        if arguments.check and (not path.exists() or path.read_text() != text):
            name = path.relative_to(ROOT)
            print(f"{name} is stale: run proto/gen_ops.py --docs", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
