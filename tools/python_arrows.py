"""The table of Python's folders, and the check that imports follow it.

Names are those below habana_frameworks/torch. A package's __init__.py is its public face: it may
import modules that nothing inside the package may import, and counts as a module of its own.
"""

import ast
import collections
from collections.abc import Iterator

from cycles import cycles

PACKAGE = "habana_frameworks.torch"
ROOT = "python/habana_frameworks/torch/"
# Packages that stand beside each other, or rooms of one, and what they may not import.
MEDIA = "habana_frameworks.mediapipe"
STRANGERS = {
    ROOT: {"habana_dataloader", MEDIA},
    "python/habana_dataloader/": {"habana_frameworks"},
    "python/habana_frameworks/mediapipe/": {PACKAGE},
    "python/habana_frameworks/mediapipe/pipeline/": {
        f"{MEDIA}.{name}" for name in ("fn", "mediapipe", "operators", "plugins")
    },
    "python/habana_frameworks/mediapipe/operators/": {
        f"{MEDIA}.{name}" for name in ("fn", "mediapipe", "plugins")
    },
}
# A room is a folder or a file. Files directly in a folder belong to the folder's row.
NATIVE = "native.py"  # finds the native modules
ATTENTION = "ops/attention_inputs.py"  # defines no operator, so that FusedSDPA may import it
COMPAT = "torch_compat"  # all that is private in PyTorch; any folder may take names from it
_ROOMS_OF_GRAPHS = {
    "dynamo/capture",
    "dynamo/dynamic",
    "dynamo/partitioned",
    "dynamo/programs",
    "dynamo/records",
    "dynamo/settings",
    "dynamo/start",
}

# Folder -> folders from which it may import (itself is always allowed). The longest prefix wins.
ARROWS: dict[str, set[str]] = {
    "": {
        "distributed",
        "dynamo/compile_backend",
        "dynamo/programs",
        "gpu_migration",
        "hpu",
        "internal",
        "lazy",
        "ops",
        NATIVE,
    },
    NATIVE: set(),
    COMPAT: set(),
    "internal": set(),
    "distributed": {"internal", NATIVE},
    "gpu_migration": {"hpu", "internal", NATIVE},
    "hpex": {"hpu", "internal", ATTENTION},
    ATTENTION: set(),
    "ops": {"internal", ATTENTION, NATIVE},
    "dynamo/settings": {"internal"},
    "dynamo/records": {"internal", NATIVE},
    "dynamo/fingerprints": {"internal"},
    "dynamo/patches": {"internal", "ops"},
    "dynamo/capture/decompositions": {"dynamo/fingerprints", "ops"},
    "dynamo/capture": {"dynamo/capture/decompositions", "internal", NATIVE},
    "dynamo/keys": {
        "dynamo/capture",
        "dynamo/capture/decompositions",
        "dynamo/fingerprints",
        NATIVE,
    },
    "dynamo/programs": {
        "dynamo/capture",
        "dynamo/fingerprints",
        "dynamo/keys",
        "dynamo/records",
        "dynamo/settings",
        "internal",
        NATIVE,
    },
    "dynamo/partitioned": {
        "dynamo/capture",
        "dynamo/dynamic",
        "dynamo/programs",
        "dynamo/records",
    },
    "dynamo/dynamic": {"dynamo/capture", "dynamo/programs", "dynamo/records"},
    "dynamo/start": {
        "dynamo/capture",
        "dynamo/fingerprints",
        "dynamo/keys",
        "dynamo/patches",
        "dynamo/programs",
        "dynamo/records",
        "dynamo/settings",
        "internal",
        NATIVE,
    },
    "dynamo": {*_ROOMS_OF_GRAPHS, "internal", NATIVE},
    "dynamo/__init__.py": {"dynamo/programs", "dynamo/records", "internal", "report"},
    "dynamo/debug_utils": {"internal"},
    "dynamo/compile_backend": {"dynamo", "dynamo/patches", *_ROOMS_OF_GRAPHS},
    "eager": {
        "dynamo/capture",
        "dynamo/capture/decompositions",
        "dynamo/fingerprints",
        "dynamo/keys",
        "dynamo/patches",
        "dynamo/programs",
        "dynamo/records",
        "dynamo/settings",
        NATIVE,
    },
    "lazy": {
        "dynamo/capture",
        "dynamo/capture/decompositions",
        "dynamo/keys",
        "dynamo/programs",
        "dynamo/records",
        "dynamo/settings",
        "eager",
        "hpu",
        "internal",
        "ops",
        NATIVE,
    },
    "hpu": {"dynamo/records", "internal", NATIVE},
    "core": {"dynamo/settings", "hpu", "internal", NATIVE},
    "utils": {"internal", NATIVE},
    "utils/debug": {"dynamo/programs", "dynamo/records", "hpu", "internal", NATIVE},
    "utils/experimental": {"hpu", "internal", NATIVE},
    "utils/profiler": {"internal", NATIVE},
    "report": {"dynamo/programs", "dynamo/records", "utils/profiler", NATIVE},
    "warmup": {
        "dynamo/capture",
        "dynamo/programs",
        "dynamo/records",
        "dynamo/settings",
        "internal",
        NATIVE,
    },
    "cli": {
        "dynamo/__init__.py",
        "dynamo/programs",
        "dynamo/records",
        "dynamo/settings",
        "dynamo/start",
        "internal",
        "report",
        "utils/profiler",
        "warmup",
        NATIVE,
    },
}


def row_of(path: str) -> str:
    """The row of ARROWS to which a file belongs: the longest match."""
    rows = [r for r in ARROWS if not r or path == r or path.startswith(f"{r}/")]
    return max(rows, key=len)


def imports(path: str, text: str, files: dict[str, str]) -> Iterator[tuple[int, str]]:
    """The line and the file of each import of ours, including those in functions. Paths begin below
    ROOT."""
    package = path.split("/")[:-1]

    def file_of(parts: list[str]) -> str | None:
        for name in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
            if name in files:
                return name
        return None

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == PACKAGE or alias.name.startswith(f"{PACKAGE}."):
                    found = file_of(alias.name.split(".")[2:])
                    yield node.lineno, found or alias.name
        elif isinstance(node, ast.ImportFrom):
            name = node.module.split(".") if node.module else []
            if node.level:
                base = package[: len(package) - node.level + 1] + name
            elif name[:2] == PACKAGE.split("."):
                base = name[2:]
            else:
                continue
            for alias in node.names:
                found = file_of([*base, alias.name]) or file_of(base)
                yield node.lineno, found or "/".join(base)


def violations(files: dict[str, str]) -> list[str]:
    """files: the texts of files by their paths below ROOT."""
    found = []
    for path, text in sorted(files.items()):
        row = row_of(path)
        if not row and "/" in path:
            found.append(f"{ROOT}{path}: its folder has no row in tools/python_arrows.py")
        for line, target in imports(path, text, files):
            there = row_of(target)
            if there not in (row, COMPAT) and there not in ARROWS[row]:
                found.append(f"{ROOT}{path}:{line}: {row or ROOT} may not import {target}")
    return found


def circles(files: dict[str, str]) -> list[str]:
    """Modules and packages that import each other in a circle, at any depth.

    Each import counts between the two neighbours below the deepest package that contains both
    files.
    """
    edges: dict[str, dict[tuple[str, str], str]] = collections.defaultdict(dict)
    for path, text in sorted(files.items()):
        for line, target in imports(path, text, files):
            here, there = path.split("/"), target.split("/")
            common = 0
            while common < min(len(here), len(there)) - 1 and here[common] == there[common]:
                common += 1
            pair = tuple(
                "/".join(parts if parts[-1] == "__init__.py" else parts[: common + 1])
                for parts in (here, there)
            )
            if pair[0] != pair[1]:
                level = "/".join(here[:common])
                edges[level].setdefault((pair[0], pair[1]), f"{ROOT}{path}:{line}")
    return [cycle for level in sorted(edges) for cycle in cycles(edges[level], "modules")]


def strangers(files: dict[str, str]) -> list[str]:
    """Imports between packages that stand beside each other. Paths are whole ones."""
    found = []
    for path, text in sorted(files.items()):
        forbidden = set().union(
            *(names for root, names in STRANGERS.items() if path.startswith(root))
        )
        package = path.removeprefix("python/").split("/")[:-1]
        for node in ast.walk(ast.parse(text)):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join([*base, *([node.module] if node.module else [])])
                names = [f"{module}.{alias.name}" for alias in node.names]
            found += [
                f"{path}:{node.lineno}: may not import {name}"
                for name in names
                if any(f"{name}.".startswith(f"{other}.") for other in forbidden)
            ]
    return found
