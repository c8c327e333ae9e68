#!/usr/bin/env python3
"""Writes what follows from proto/options.yaml: the Python table and docs/options.md.

gen_options.py          writes the files
gen_options.py --check  fails if they are not current
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "python/habana_frameworks/torch/dynamo/option_table.py"
PAGE = ROOT / "docs/options.md"
FIELDS = {"name", "env", "type", "default", "key", "effect", "text", "values"}
TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}


def load() -> list[dict[str, Any]]:
    rows = yaml.safe_load((ROOT / "proto/options.yaml").read_text())
    seen: set[str] = set()
    for row in rows:
        name = row.get("name", "?")
        unknown = set(row) - FIELDS
        missing = FIELDS - {"values"} - set(row)
        if unknown or missing:
            raise SystemExit(f"options.yaml: {name}: unknown {unknown} or missing {missing} fields")
        if name in seen or row["env"] in seen:
            raise SystemExit(f"options.yaml: {name} or its variable appears twice")
        seen |= {name, row["env"]}
        if not isinstance(row["default"], TYPES[row["type"]]):
            raise SystemExit(f"options.yaml: {name}: default is not a {row['type']}")
    return list(rows)


def literal(value: Any) -> str:
    """A Python literal in the project's quoting."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def python_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        '"""Options of hpu_backend. Written by proto/gen_options.py from proto/options.yaml."""',
        "",
        "from __future__ import annotations",
        "",
        "from dataclasses import dataclass",
        "",
        "",
        "@dataclass(frozen=True)",
        "class Option:",
        '    """One row of the table; `effect` is "active" or why other values change nothing."""',
        "",
        "    name: str",
        "    env: str",
        "    kind: type",
        "    default: bool | int | float | str",
        "    key: bool",
        "    effect: str",
        "    text: str",
        "    values: tuple[str, ...] = ()",
        "",
        "",
        "OPTIONS: tuple[Option, ...] = (",
    ]
    for row in rows:
        default = float(row["default"]) if row["type"] == "float" else row["default"]
        values = [
            ("name", literal(row["name"])),
            ("env", literal(row["env"])),
            ("kind", row["type"]),
            ("default", literal(default)),
            ("key", literal(row["key"])),
            ("effect", literal(row["effect"])),
            ("text", literal(row["text"])),
        ]
        if "values" in row:
            values.append(("values", "(" + ", ".join(map(literal, row["values"])) + ")"))
        lines.append("    Option(")
        lines += [f"        {name}={value}," for name, value in values]
        lines.append("    ),")
    return "\n".join([*lines, ")", ""])


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Options of `hpu_backend`",
        "",
        "Written by `proto/gen_options.py` from `proto/options.yaml`. Give them as",
        '`torch.compile(model, backend="hpu_backend", options={"name": value})` or in the',
        "environment (read when the first graph is compiled; `options` wins). Booleans accept",
        "on/1/yes/true/y/t and off/0/no/false/n/f. *In key*: part of what a program is filed",
        "under.",
        "",
        "| option | environment | default | in key | meaning |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        text = row["text"]
        if "values" in row:
            text += " One of " + ", ".join(f"`{v}`" for v in row["values"]) + "."
        if row["effect"] != "active":
            text += f" Accepted for compatibility and without effect: {row['effect']}."
        default = {True: "on", False: "off"}.get(row["default"], row["default"])
        if row["type"] != "bool":
            default = row["default"]
        key = "yes" if row["key"] else "no"
        lines.append(f"| `{row['name']}` | `{row['env']}` | {default} | {key} | {text} |")
    return "\n".join([*lines, ""])


def main() -> int:
    rows = load()
    stale = []
    for path, content in ((TABLE, python_table(rows)), (PAGE, page(rows))):
        if path.exists() and path.read_text() == content:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if "--check" not in sys.argv[1:]:
            path.write_text(content)
    if stale and "--check" in sys.argv[1:]:
        print(f"not current: {', '.join(stale)}; run proto/gen_options.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
