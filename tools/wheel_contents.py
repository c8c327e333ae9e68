"""Shows what is in a wheel, and how big it is.

Usage: python tools/wheel_contents.py dist/hpu_backend-0.1.0-….whl
"""

import sys
import zipfile
from collections import defaultdict
from pathlib import Path


def part_of(name: str) -> str:
    """The row in which a file is counted: each of our binaries, each library, all Python."""
    path = Path(name)
    if path.suffix in (".py", ".pyi", ".js", ".css", ".html") or "-info" in path.parts[0]:
        return "Python, page and metadata"
    library = path.name.partition(".")[0].partition("-")[0]
    return "libabsl_*" if library.startswith("libabsl_") else library


def main() -> int:
    wheel = Path(sys.argv[1])
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    with zipfile.ZipFile(wheel) as content:
        for file in (f for f in content.infolist() if not f.is_dir()):
            sizes[part_of(file.filename)][0] += file.compress_size
            sizes[part_of(file.filename)][1] += file.file_size
    print(f"{'MB in the wheel':>15}  {'MB on disk':>10}  part")
    for part, (packed, whole) in sorted(sizes.items(), key=lambda item: -item[1][0]):
        print(f"{packed / 1e6:15.2f}  {whole / 1e6:10.2f}  {part}")
    whole = sum(size[1] for size in sizes.values())
    print(f"{wheel.stat().st_size / 1e6:15.2f}  {whole / 1e6:10.2f}  {wheel}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
