"""Checks that includes and imports follow ARCHITECTURE.md's arrows, that no folders or modules
depend on each other in a circle, that torch and protobuf never meet, and that PyTorch's unstable
headers are included in one place. Python's table is in python_arrows.py.

Usage: python tools/check_arrows.py      exit 0 = clean, 1 = violations printed as file:line
"""

import collections
import pathlib
import re
import subprocess
import sys

import python_arrows
from cycles import cycles

# Folder -> our folders from which it may include (itself is always allowed). The longest prefix
# wins.
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "graph": {"base"},
    "program": {"base", "graph"},
    "proto": {"base"},
    "synapse/include": set(),
    "synapse": {"base"},
    "recipe": {"base", "synapse/include"},
    "graph_compiler": {"base", "recipe", "synapse/include"},
    "graph_compiler/ir": {"base", "recipe", "synapse/include"},
    "graph_compiler/import": {"base", "graph_compiler/ir", "synapse/include"},
    "graph_compiler/codegen": {"base", "recipe", "graph_compiler/ir"},
    "graph_compiler/contraction": {"base", "recipe", "graph_compiler/ir", "graph_compiler/codegen"},
    "graph_compiler/fusion": {"base", "graph_compiler/ir", "graph_compiler/codegen"},
    "graph_compiler/plan": {"base", "graph_compiler/ir", "graph_compiler/fusion"},
    "graph_compiler/emit": {
        "base",
        "recipe",
        "graph_compiler/ir",
        "graph_compiler/codegen",
        "graph_compiler/contraction",
        "graph_compiler/fusion",
        "graph_compiler/plan",
    },
    "emulator/base": {"base", "synapse/include"},
    "emulator/config": {"base", "recipe"},
    "emulator/memory": {"base"},
    "emulator/faults": {"base", "emulator/base", "synapse/include"},
    "emulator/profiler": {"base", "recipe", "emulator/base", "synapse/include"},
    "emulator/graph": {
        "base",
        "recipe",
        "emulator/base",
        "graph_compiler/compiler.h",
        "graph_compiler/compiler_door.h",
        "graph_compiler/ir/graph_desc.h",
        "synapse/include",
    },
    "emulator/threads": {"base", "recipe", "emulator/base"},
    "emulator/streams": {"base", "emulator/base", "synapse/include"},
    "emulator/kernels": {"base", "synapse/include"},
    "emulator/runtime": {
        "base",
        "recipe",
        "emulator/base",
        "emulator/kernels",
        "emulator/memory",
        "emulator/faults",
        "emulator/profiler",
        "emulator/threads",
        "emulator/streams",
        "synapse/include",
    },
    "emulator/collectives": {
        "base",
        "emulator/base",
        "emulator/profiler",
        "emulator/runtime",
        "emulator/streams",
        "synapse/include",
    },
    "emulator/device": {
        "base",
        "emulator/base",
        "emulator/memory",
        "emulator/streams",
        "emulator/runtime",
        "synapse/include",
    },
    "emulator": {"base", "recipe", "synapse/include"},
    "recipe_store": {"base", "graph", "program", "proto"},
    "compiler_server": {
        "base",
        "graph",
        "program",
        "proto",
        "recipe_store",
        "synapse/device_kind.h",
        "synapse/include",
        "synapse/loader.h",
        "synapse/recipe_bytes.h",
    },
    "compiler_server/ir": {"base", "graph", "program"},
    "compiler_server/passes/decompose": {"base", "graph", "compiler_server/ir"},
    "compiler_server/passes": {"base", "graph", "compiler_server/ir"},
    "compiler_server/partition": {"base", "graph", "compiler_server/ir"},
    "compiler_server/lowering": {
        "base",
        "graph",
        "program",
        "compiler_server/ir",
        "synapse/include",
        "synapse/loader.h",
        "synapse/recipe_bytes.h",
    },
    "compiler_server/compiler": {
        "base",
        "graph",
        "program",
        "proto",
        "compiler_server/ir",
        "compiler_server/passes",
        "compiler_server/partition",
        "compiler_server/lowering",
        "synapse/device_kind.h",
        "synapse/loader.h",
        "synapse/recipe_bytes.h",
    },
    "compile_client": {"base", "graph", "proto", "recipe_store"},
    "compiler_server/service": {
        "base",
        "compile_client",
        "graph",
        "program",
        "proto",
        "recipe_store",
    },
    "backend/client": {"base", "compile_client", "graph", "program", "proto", "recipe_store"},
    "data_loader": {"base"},
    "backend/runtime": {
        "base",
        "graph",
        "program",
        "synapse/device_kind.h",
        "synapse/include",
        "synapse/loader.h",
        "synapse/recipe_bytes.h",
    },
    "backend/torch": {
        "base",
        "graph",
        "program",
        "backend/custom_op/kernel_call.h",
        "backend/runtime",
        "synapse/include",
        "synapse/loader.h",
        "synapse/recipe_bytes.h",
    },
    "backend/custom_op": set(),
}
OUR_ROOTS = (
    "base/",
    "graph/",
    "program/",
    "proto/",
    "synapse/",
    "recipe/",
    "graph_compiler/",
    "emulator/",
    "recipe_store/",
    "compile_client/",
    "compiler_server/",
    "data_loader/",
    "backend/",
)

TORCH = re.compile(r"^(torch|ATen|c10|caffe2|kineto)/")
# PyTorch promises these headers to extensions. Any other may change with every version, so the rest
# of backend/torch reaches it through UNSTABLE_TORCH.
STABLE_TORCH = {
    "ATen/ATen.h",
    "c10/core/Device.h",
    "c10/core/DeviceType.h",
    "c10/core/Layout.h",
    "c10/core/MemoryFormat.h",
    "c10/core/Scalar.h",
    "c10/core/ScalarType.h",
    "torch/extension.h",
    "torch/library.h",
}
UNSTABLE_TORCH = "backend/torch/pytorch/unstable_torch.h"

# Outside headers and the only folders that may include them.
OUTSIDE: list[tuple[re.Pattern[str], set[str]]] = [
    (TORCH, {"backend/custom_op", "backend/torch"}),
    (
        re.compile(r"^(google/protobuf|grpc)"),
        {"compile_client", "compiler_server", "recipe_store", "backend/client", "proto"},
    ),
    (re.compile(r"^rocksdb/"), {"recipe_store"}),
    (re.compile(r"^prometheus/"), {"compiler_server"}),
    (
        re.compile(r"^(llvm|llvm-c)/"),
        {"graph_compiler"},
    ),
    (re.compile(r"^(spdlog|fmt)/"), {"base"}),
    (re.compile(r"^(jpeglib|jerror)\.h$"), {"data_loader"}),
    (re.compile(r"^pybind11/"), {"backend/torch", "backend/client", "data_loader"}),
]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def folder_of(path: str) -> str | None:
    """The row of ARROWS to which a file belongs: the longest matching prefix."""
    matches = [folder for folder in ARROWS if path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


# The division of these folders is given from outside, so each counts as one.
GIVEN = ("synapse/include",)


def circles(files: dict[str, str]) -> list[str]:
    """Folders that include from each other in a circle, at any depth.

    `files` maps paths to texts. Each include counts between the two neighbours below the deepest
    folder that contains both files; files directly in that folder are a neighbour of their own.
    """
    edges: dict[str, dict[tuple[str, str], str]] = collections.defaultdict(dict)
    for path, text in sorted(files.items()):
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or not match.group(2).startswith(OUR_ROOTS):
                continue
            if any(path.startswith(g) and match.group(2).startswith(g) for g in GIVEN):
                continue
            here, there = path.split("/")[:-1], match.group(2).split("/")[:-1]
            common = 0
            while common < min(len(here), len(there)) and here[common] == there[common]:
                common += 1
            if here == there:
                continue
            edge = ("/".join(here[: common + 1]), "/".join(there[: common + 1]))
            edges["/".join(here[:common])].setdefault(edge, f"{path}:{number}")
    return [circle for level in sorted(edges) for circle in cycles(edges[level], "folders")]


def violations(path: str, text: str) -> list[str]:
    folder = folder_of(path)
    if folder is None:
        return []
    found = []
    saw_torch = saw_proto = False
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(2)
        saw_torch |= bool(TORCH.match(target))
        saw_proto |= target.endswith(".pb.h") or target.startswith("google/protobuf")
        if target.startswith(OUR_ROOTS):
            allowed = ARROWS[folder] | {folder}
            if not any(target == a or target.startswith(a + "/") for a in allowed):
                found.append(f"{path}:{number}: {folder} may not include {target}")
        for pattern, folders in OUTSIDE:
            if pattern.match(target) and not any(path.startswith(f + "/") for f in folders):
                found.append(f"{path}:{number}: only {sorted(folders)} may include {target}")
        unstable = TORCH.match(target) and target not in STABLE_TORCH
        if unstable and folder == "backend/torch" and path != UNSTABLE_TORCH:
            found.append(f"{path}:{number}: only {UNSTABLE_TORCH} may include {target}")
    if saw_torch and saw_proto:
        found.append(f"{path}: includes both torch and protobuf headers")
    return found


def texts(*patterns: str) -> dict[str, str]:
    """The text of each tracked file that matches a pattern, by its path."""
    paths = subprocess.run(
        ["git", "ls-files", *patterns], check=True, capture_output=True, text=True
    ).stdout.split()
    return {path: pathlib.Path(path).read_text(encoding="utf-8") for path in paths}


def main() -> int:
    files = texts("*.cc", "*.h")
    found = [violation for path, text in files.items() for violation in violations(path, text)]
    found += circles(files)
    modules = {
        path.removeprefix(python_arrows.ROOT): text
        for path, text in texts(f"{python_arrows.ROOT}*.py").items()
    }
    found += python_arrows.violations(modules) + python_arrows.circles(modules)
    neighbours: dict[str, str] = {}
    for root in python_arrows.STRANGERS:
        neighbours |= texts(f"{root}*.py")
    found += python_arrows.strangers(neighbours)
    count = len({*files, *neighbours})
    print("\n".join(found) if found else f"arrows: {count} files clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
