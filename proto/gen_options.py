#!/usr/bin/env python3
"""Generates from proto/options.yaml the tables of Python and C++ and docs/options.md.

gen_options.py            writes the committed files (Python's table, the page)
gen_options.py --check    fails if they are not current
gen_options.py --out DIR  writes the C++ header to DIR/proto
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "python/habana_frameworks/torch/dynamo/settings/option_table.py"
PAGE = ROOT / "docs/options.md"
FIELDS = {"name", "env", "type", "default", "key", "effect", "text"}
OPTIONAL = {"values", "torch_mode"}
CPP_TYPES = {"bool": "bool", "int": "int64_t", "float": "double", "str": "std::string"}
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
        unknown = set(row) - FIELDS - OPTIONAL
        missing = FIELDS - set(row)
        if unknown or missing:
            raise SystemExit(f"options.yaml: {name}: unknown {unknown} or missing {missing} fields")
        if name in seen or row["env"] in seen:
            raise SystemExit(f"options.yaml: {name} or its variable appears twice")
        seen |= {name, row["env"]}
        if not isinstance(row["default"], TYPES[row["type"]]):
            raise SystemExit(f"options.yaml: {name}: default is not a {row['type']}")
        if "torch_mode" in row and row["type"] != "bool":
            raise SystemExit(f"options.yaml: {name}: only a bool can follow a mode of PyTorch")
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
        '    """One row of the table; `effect` is "active" or why other values change nothing.',
        "",
        "    torch_mode: a function of torch; the option is also on while it returns true.",
        '    """',
        "",
        "    name: str",
        "    env: str",
        "    kind: type",
        "    default: bool | int | float | str",
        "    key: bool",
        "    effect: str",
        "    text: str",
        "    values: tuple[str, ...] = ()",
        '    torch_mode: str = ""',
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
        if "torch_mode" in row:
            values.append(("torch_mode", literal(row["torch_mode"])))
        lines.append("    Option(")
        lines += [f"        {name}={value}," for name, value in values]
        lines.append("    ),")
    return "\n".join([*lines, ")", ""])


def cpp_literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return literal(value)


def cpp_header(rows: list[dict[str, Any]]) -> str:
    """Defaults of the numbers, and the options that a compile request carries."""
    lines = [
        "// Written by proto/gen_options.py from proto/options.yaml.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "#include <string>",
        "#include <string_view>",
        "#include <utility>",
        "#include <vector>",
        "",
        '#include "base/status.h"',
        '#include "proto/option_value.h"',
        "",
        "namespace hpu {",
        "",
        "// The values of options that nobody has set.",
        "namespace default_options {",
    ]
    for row in rows:
        if row["type"] in ("int", "float"):
            kind = CPP_TYPES[row["type"]]
            lines.append(f"inline constexpr {kind} {row['name']} = {cpp_literal(row['default'])};")
    keyed = [row for row in rows if row["key"]]
    lines += [
        "}  // namespace default_options",
        "",
        "// The options that enter the key: requests carry them, the compiler may see them.",
        "struct KeyOptions {",
    ]
    for row in keyed:
        kind = CPP_TYPES[row["type"]]
        lines += [
            f"  // {row['text']}",
            f"  {kind} {row['name']} = {cpp_literal(row['default'])};",
        ]
    lines += [
        "};",
        "",
        "// Returns INVALID_ARGUMENT if there is no such option or the value is not of its type.",
        "inline absl::Status SetOption(std::string_view name, std::string_view value,",
        "                              KeyOptions* options) {",
    ]
    for row in keyed:
        allowed = "{" + ", ".join(map(literal, row.get("values", []))) + "}"
        more = f", {allowed}" if row["type"] == "str" else ""
        lines.append(
            f'  if (name == "{row["name"]}") '
            f"return ParseOption(name, value{more}, &options->{row['name']});"
        )
    names = ", ".join(row["name"] for row in keyed)
    lines += [
        f'  return InvalidArgument("unknown compile option ", name, "; there are: {names}");',
        "}",
        "",
        "// Returns all options by name, as text that SetOption accepts.",
        "inline std::vector<std::pair<std::string, std::string>> OptionTexts(",
        "    const KeyOptions& options) {",
        "  return {",
    ]
    for row in sorted(keyed, key=lambda row: str(row["name"])):
        lines.append(f'      {{"{row["name"]}", OptionText(options.{row["name"]})}},')
    lines += [
        "  };",
        "}",
        "",
        "}  // namespace hpu",
        "",
    ]
    return "\n".join(lines)


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Options of `hpu_backend`",
        "",
        "This page is written by `proto/gen_options.py` from `proto/options.yaml`. Give options as",
        '`torch.compile(model, backend="hpu_backend", options={"name": value})` or in the',
        "environment, or set them in `habana_frameworks.torch.dynamo.compile_backend.config`, a",
        "torch config module: `config.name = value`, `with config.patch(name=value):`,",
        '`config.configuration_flags["name"] = value`. The environment is read when that module is',
        "imported, which the first compiled graph does; `config` wins over the environment, and",
        "`options` over both. Booleans accept on/1/yes/true/y/t and off/0/no/false/n/f. An option",
        "that is *in the key* makes another program when it changes. [modules.md](modules.md)",
        "lists the flags of the bridge that do not belong to the backend; `GRAPH_VISUALIZATION=1`,",
        "which writes every graph's stages to files, is explained in [report.md](report.md).",
        "",
        "| option | environment | default | in key | meaning |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        text = row["text"]
        if "values" in row:
            text += " One of " + ", ".join(f"`{v}`" for v in row["values"]) + "."
        if "torch_mode" in row:
            text += f" Also on while `torch.{row['torch_mode']}()`."
        if row["effect"] != "active":
            text += f" Accepted for compatibility and without effect: {row['effect']}."
        default = {True: "on", False: "off"}.get(row["default"], row["default"])
        if row["type"] != "bool":
            default = row["default"]
        key = "yes" if row["key"] else "no"
        lines.append(f"| `{row['name']}` | `{row['env']}` | {default} | {key} | {text} |")
    return "\n".join([*lines, ""])


def write_if_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Generator of the option tables.")
    parser.add_argument("--out", type=Path, help="build tree to write the C++ header to")
    parser.add_argument("--check", action="store_true", help="fail if a committed file is stale")
    arguments = parser.parse_args()
    rows = load()
    if arguments.out:
        write_if_changed(arguments.out / "proto/options_generated.h", cpp_header(rows))
        return 0
    for path, content in ((TABLE, python_table(rows)), (PAGE, page(rows))):
        if not arguments.check:
            write_if_changed(path, content)
        elif not path.exists() or path.read_text() != content:
            name = path.relative_to(ROOT)
            print(f"{name} is not current: run proto/gen_options.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
