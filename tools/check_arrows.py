"""Checks that includes follow ARCHITECTURE.md's arrows and that torch and protobuf never meet.

Usage: python tools/check_arrows.py      exit 0 = clean, 1 = violations printed as file:line
"""

import pathlib
import re
import subprocess
import sys

# folder -> folders of ours it may include from (itself is always allowed). The longest prefix wins.
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "program": {"base"},
    "proto": {"base"},
    "synapse/include": set(),
    "synapse": {"base", "synapse"},
    "recipe_store": {"base", "program", "proto"},
    "compiler_server": {
        "base",
        "program",
        "proto",
        "recipe_store",
        "synapse/include",
        "synapse/loader.h",
    },
    "backend/client": {"base", "program", "proto", "recipe_store"},
    "backend/runtime": {"base", "program", "synapse/include", "synapse/loader.h"},
    "backend/torch": {"base", "program", "backend/runtime", "synapse/include", "synapse/loader.h"},
}
OUR_ROOTS = (
    "base/",
    "program/",
    "proto/",
    "synapse/",
    "recipe_store/",
    "compiler_server/",
    "backend/",
)

# Outside headers and the only folders that may include them.
OUTSIDE: list[tuple[re.Pattern[str], set[str]]] = [
    (re.compile(r"^(torch|ATen|c10)/"), {"backend/torch"}),
    (
        re.compile(r"^(google/protobuf|grpc)"),
        {"compiler_server", "recipe_store", "backend/client", "proto"},
    ),
    (re.compile(r"^rocksdb/"), {"recipe_store"}),
    (
        re.compile(r"^(llvm|llvm-c)/"),
        {"synapse/emulator/graph_compiler"},
    ),
    (re.compile(r"^(spdlog|fmt)/"), {"base"}),
    (re.compile(r"^pybind11/"), {"backend/torch", "backend/client"}),
]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def folder_of(path: str) -> str | None:
    """The ARROWS row a file belongs to: the longest matching prefix."""
    matches = [folder for folder in ARROWS if path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


def violations(path: str) -> list[str]:
    folder = folder_of(path)
    if folder is None:
        return []
    found = []
    saw_torch = saw_proto = False
    text = pathlib.Path(path).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(2)
        saw_torch |= bool(re.match(r"(torch|ATen|c10)/", target))
        saw_proto |= target.endswith(".pb.h") or target.startswith("google/protobuf")
        if target.startswith(OUR_ROOTS):
            allowed = ARROWS[folder] | {folder}
            if not any(target == a or target.startswith(a + "/") for a in allowed):
                found.append(f"{path}:{number}: {folder} may not include {target}")
        for pattern, folders in OUTSIDE:
            if pattern.match(target) and not any(path.startswith(f + "/") for f in folders):
                found.append(f"{path}:{number}: only {sorted(folders)} may include {target}")
    if saw_torch and saw_proto:
        found.append(f"{path}: includes both torch and protobuf headers")
    return found


def main() -> int:
    files = subprocess.run(
        ["git", "ls-files", "*.cc", "*.h"], check=True, capture_output=True, text=True
    ).stdout.split()
    found = [violation for path in files for violation in violations(path)]
    print("\n".join(found) if found else f"arrows: {len(files)} files clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
