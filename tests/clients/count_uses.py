"""Counts how often the sources of public programs use each name of habana_frameworks.

    ./dev python tests/clients/count_uses.py FOLDER >tests/clients/symbol_uses.json

FOLDER has a bare git repository `<owner>+<name>/repo` for each program. The output is what
symbols.py reads: for each program its repository, commit and number of uses by dotted name. One use
is one place in a Python file or in a code cell of a notebook where the name is imported or read:
`from habana_frameworks.torch.hpu import graphs` is one use of the module, and `ht.hpu.Stream(...)`,
where `ht` is habana_frameworks.torch, is one of `habana_frameworks.torch.hpu.Stream`. `torch.hpu`
counts as that module, and `torch.ops.hpu` as itself. In C++ files that include the interface for
custom operators (hpu_custom_op.h, hpu_custom_op_pt2.h), each of its qualified names and macros is
one use: `habana::custom_op::registerUserCustomOp`, `HPU_PARAMS_STUB`.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = "habana_frameworks"
_MENTIONED = re.compile(r"habana_frameworks|torch\.hpu|ops\.hpu")
# The places at which programs reach our names without importing habana_frameworks.
_TORCH_HPU = "torch.hpu"
_TORCH_OPS = "torch.ops.hpu"
_CUSTOM_OP = re.compile(r'^\s*#\s*include\s*[<"]hpu_custom_op(?:_pt2)?\.h[>"]', re.MULTILINE)
_CPP_NAMES = re.compile(r"\bhabana(?:::\w+)+|\bHPU_PARAMS_STUB\b|\bREGISTER_CUSTOM_OP_ATTRIBUTES\b")
# Magics and shell commands of notebooks, which are not Python.
_NOT_PYTHON = re.compile(r"^\s*[%!].*$", re.MULTILINE)


def _git(repository: Path, *arguments: str) -> bytes:
    command = ["git", f"--git-dir={repository}", *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout


def _texts(repository: Path, *endings: str) -> Iterator[tuple[str, str]]:
    """Name and text of each file of the newest commit whose name has one of the endings."""
    for name in _git(repository, "ls-tree", "-rz", "--name-only", "HEAD").decode().split("\0"):
        if name.endswith(endings):
            yield name, _git(repository, "show", f"HEAD:{name}").decode(errors="replace")


def python_texts(repository: Path) -> Iterator[str]:
    """The Python code that mentions the package."""
    for name, text in _texts(repository, ".py", ".ipynb"):
        if not _MENTIONED.search(text):
            continue
        if name.endswith(".py"):
            yield text
        else:
            yield from _cells(text)


def _cells(notebook: str) -> Iterator[str]:
    """All code cells as one text, because a cell uses what earlier ones import."""
    cells = json.loads(notebook).get("cells", [])
    codes = ("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    yield _NOT_PYTHON.sub("pass", "\n".join(codes))


class _Uses(ast.NodeVisitor):
    """Uses in one file. A local name means the same in the whole file."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self._names: dict[str, str] = {"torch": "torch"}

    def learn(self, tree: ast.AST) -> None:
        """Notes what the file's imports call the names, before uses are looked for."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == ROOT:
                        self._names[alias.asname or ROOT] = alias.name if alias.asname else ROOT
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == ROOT:
                for alias in node.names:
                    self._names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                meant, name = self._dotted(node.value), ast.unparse(node.targets[0])
                if meant is not None and name.startswith("self."):
                    self._names[name] = meant

    def visit_Import(self, node: ast.Import) -> None:
        self.found.update(a.name for a in node.names if a.name.split(".")[0] == ROOT)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").split(".")[0] == ROOT:
            names = (a.name for a in node.names)
            self.found.update(str(node.module) if n == "*" else f"{node.module}.{n}" for n in names)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._dotted(node) if isinstance(node.ctx, ast.Load) else None
        if name is None:
            self.generic_visit(node)
        else:
            self._count(name)

    def visit_Name(self, node: ast.Name) -> None:
        name = self._dotted(node)
        if name is not None:
            self._count(name)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Modules that are imported by a text."""
        if isinstance(node.value, str) and re.fullmatch(rf"{ROOT}(\.\w+)*", node.value):
            self.found[node.value] += 1

    def _dotted(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Attribute):
            start = self._dotted(node.value)
            if start is not None:
                return f"{start}.{node.attr}"
            of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            return self._names.get(f"self.{node.attr}") if of_self else None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return self._names.get(node.id)
        return None

    def _count(self, name: str) -> None:
        if name == _TORCH_HPU or name.startswith(f"{_TORCH_HPU}."):
            name = f"{ROOT}.{name}"
        if name.startswith((f"{ROOT}.", f"{_TORCH_OPS}.")):
            self.found[name] += 1


def count(texts: Iterator[str]) -> Counter[str]:
    """Uses by name. A text that is not Python 3 counts nothing."""
    found: Counter[str] = Counter()
    for text in texts:
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            print(f"not Python 3: {error}", file=sys.stderr)
            continue
        uses = _Uses()
        uses.learn(tree)
        uses.visit(tree)
        found += uses.found
    return found


def count_cpp(repository: Path) -> Counter[str]:
    """Uses of the C++ interface for custom operators by name."""
    found: Counter[str] = Counter()
    for _, text in _texts(repository, ".cpp", ".cc", ".h", ".hpp"):
        if _CUSTOM_OP.search(text):
            found.update(_CPP_NAMES.findall(text))
    return found


def main(folder: Path) -> None:
    programs = {}
    for repository in sorted(folder.glob("*+*/repo")):
        uses = count(python_texts(repository)) + count_cpp(repository)
        if uses:
            name = repository.parent.name.replace("+", "/")
            commit, date = _git(repository, "log", "-1", "--format=%H %cs", "HEAD").decode().split()
            programs[name] = {"commit": commit, "date": date, "uses": dict(sorted(uses.items()))}
    json.dump(programs, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
