"""Checks that no built object links both libtorch and protobuf/gRPC, that the emulator links none
of them, and that no source that CMake joined from several files (HPU_UNITY) includes headers of
both.

It walks the NEEDED closure (through the build's own objects) of everything that a build makes, and
the includes of our own headers.
Usage: python tools/check_link_closure.py build/release
"""

import pathlib
import re
import subprocess
import sys

from check_arrows import INCLUDE

TORCH = re.compile(r"^libtorch|^libc10")
PROTO = re.compile(r"^libproto(buf|c)|^libgrpc")
LLVM = re.compile(r"^libLLVM")
TORCH_HEADER = re.compile(r"^(torch|ATen|c10)/")
PROTO_HEADER = re.compile(r"^(google/protobuf|grpc)|\.pb\.h$")


def is_elf(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path: pathlib.Path) -> list[str]:
    out = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+?)\]", out)


def closure(path: pathlib.Path, own: dict[str, pathlib.Path]) -> set[str]:
    seen: set[str] = set()
    stack = needed(path)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack += needed(own[name]) if name in own else []
    return seen


def violations(path: pathlib.Path, names: set[str]) -> list[str]:
    torch = sorted(n for n in names if TORCH.match(n))
    proto = sorted(n for n in names if PROTO.match(n))
    found = []
    if torch and proto:
        found.append(f"{path}: links both {torch[0]} and {proto[0]}")
    if path.name.startswith("libSynapse") and (torch or proto):
        found.append(f"{path}: the emulator links {(torch + proto)[0]}")
    if path.name == "libSynapse.so" and any(LLVM.match(n) for n in names):
        found.append(f"{path}: the launch side links LLVM")
    return found


def headers(source: pathlib.Path) -> set[str]:
    """Returns the headers that `source` includes, directly and through our own files."""
    seen: set[str] = set()
    stack = [source]
    while stack:
        for match in map(INCLUDE.match, stack.pop().read_text(encoding="utf-8").splitlines()):
            if match and match.group(2) not in seen:
                seen.add(match.group(2))
                file = pathlib.Path(match.group(2))
                stack += [file] if file.is_file() else []
    return seen


def mixes(source: pathlib.Path) -> list[str]:
    names = sorted(headers(source))
    torch = [n for n in names if TORCH_HEADER.match(n)]
    proto = [n for n in names if PROTO_HEADER.search(n)]
    return [f"{source}: includes both {torch[0]} and {proto[0]}"] if torch and proto else []


def main() -> int:
    build = pathlib.Path(sys.argv[1])
    joined = sorted(build.rglob("Unity/unity_*.cxx"))
    objects = [
        p
        for p in build.rglob("*")
        if p.is_file()
        and not p.is_symlink()
        and "CMakeFiles" not in p.parts
        and (".so" in p.name or not p.suffix)
    ]
    objects = [p for p in objects if is_elf(p)]
    own = {p.name: p for p in objects}
    found = [v for p in objects for v in violations(p, closure(p, own))]
    found += [violation for source in joined for violation in mixes(source)]
    clean = f"link closure: {len(objects)} objects and {len(joined)} joined sources clean"
    print("\n".join(found) if found else clean)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
