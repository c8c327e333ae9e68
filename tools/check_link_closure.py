"""Checks that no built object links both libtorch and protobuf/gRPC, and that the emulator links
none of them.

It walks the NEEDED closure (through the build's own objects) of everything that a build makes.
Usage: python tools/check_link_closure.py build/release
"""

import pathlib
import re
import subprocess
import sys

TORCH = re.compile(r"^libtorch|^libc10")
PROTO = re.compile(r"^libproto(buf|c)|^libgrpc")
LLVM = re.compile(r"^libLLVM")


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


def main() -> int:
    build = pathlib.Path(sys.argv[1])
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
    print("\n".join(found) if found else f"link closure: {len(objects)} objects clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
