"""Refuses hand-written source files over the hard limit; names those over the soft one.

Usage: python tools/check_lengths.py     exit 0 = none over 800 lines
"""

import pathlib
import subprocess
import sys

SOFT = 400
HARD = 800
GENERATED = "; do not edit."  # in the first lines of what a generator wrote
# These files are over the soft limit for a reason; the hard limit holds for them too.
EXEMPT = {
    # This file has the enums and structs of a foreign ABI with their layout assertions: a list,
    # looked up by name, that C clients include under this one name.
    "synapse/include/synapse_api_types.h",
}


def main() -> int:
    files = subprocess.run(
        ["git", "ls-files", "*.cc", "*.h", "*.c", "*.py", "dev"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    texts = {path: pathlib.Path(path).read_text(encoding="utf-8") for path in files}
    lengths = {
        path: len(text.splitlines()) for path, text in texts.items() if GENERATED not in text[:500]
    }
    over_soft = sorted(
        (n, path) for path, n in lengths.items() if n > SOFT and (n > HARD or path not in EXEMPT)
    )
    for n, path in over_soft:
        print(f"{path}: {n} lines ({'over the hard' if n > HARD else 'over the soft'} limit)")
    return 1 if any(n > HARD for n, _ in over_soft) else 0


if __name__ == "__main__":
    sys.exit(main())
