"""A digest of this package's own code: other code may make other graphs and other starts."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
# One read gets most modules whole. Larger buffers are mapped anew for each read, which takes five
# times as long.
_MOST = 1 << 16


def _modules(folder: str) -> Iterator[str]:
    """The paths of the modules in a folder and below it, in the same order everywhere."""
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if name.endswith(".py"):
            yield path
        elif "." not in name and name != "__pycache__":
            yield from _modules(path)


@functools.cache
def code_digest(*folders: str) -> str:
    """folders: of the package, "dynamo/capture". A module's name counts as well as its text."""
    content = hashlib.sha256()
    for folder in folders:
        for path in _modules(f"{_PACKAGE}/{folder}"):
            content.update(path[len(_PACKAGE) :].encode() + b"\n")
            file = os.open(path, os.O_RDONLY)  # open() makes objects, which takes twice as long
            try:
                while len(part := os.read(file, _MOST)) == _MOST:
                    content.update(part)
                content.update(part)  # a regular file gives less only at its end
            finally:
                os.close(file)
    return content.hexdigest()[:16]
