"""The processes of this user that have acquired an emulated device.

Each of them keeps a memory file open that says how it is used (emulator/base/usage.h).
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NAME = "/memfd:hpu-emulated-device"
# version, bytes, free bytes, streams that work now, module
_NUMBERS = struct.Struct("=5Q")
_VERSION = 2
_LOOKS = 50


@dataclass(frozen=True)
class _Numbers:
    total: int
    free: int
    running: int
    module: int


@dataclass(frozen=True)
class Process:
    pid: int
    module: int
    name: str
    total: int
    used: int
    utilization: int  # the per cent of looks that found it at work


def _files() -> Iterator[tuple[int, Path]]:
    """The process and the path of each such file, once each: a forked child has its parent's
    too."""
    seen: set[int] = set()
    for process in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        folder = Path(f"/proc/{process}/fd")
        try:
            files = list(folder.iterdir())
        except OSError:  # another user's, or it has ended
            continue
        for file in files:
            try:
                if os.readlink(file).startswith(_NAME):
                    inode = file.stat().st_ino
                    if inode not in seen and process != os.getpid():
                        seen.add(inode)
                        yield process, file
            except OSError:
                continue


def _read(file: Path) -> _Numbers | None:
    try:
        data = file.read_bytes()
    except OSError:
        return None
    if len(data) != _NUMBERS.size:
        return None
    version, *numbers = _NUMBERS.unpack(data)
    return _Numbers(*numbers) if version == _VERSION else None


def processes(seconds: float) -> list[Process]:
    """Looks many times within `seconds`, if there is a process at all."""
    files = [(pid, file) for pid, file in _files() if _read(file)]
    looks: list[list[_Numbers | None]] = []
    for _ in range(_LOOKS if files else 0):
        looks.append([_read(file) for _, file in files])
        time.sleep(seconds / _LOOKS)
    found = []
    for (pid, _), seen in zip(files, zip(*looks, strict=True), strict=False):
        last = seen[-1]
        try:
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if last is not None:
            busy = sum(numbers is not None and numbers.running > 0 for numbers in seen)
            used = last.total - last.free
            found.append(
                Process(pid, last.module, name, last.total, used, round(100 * busy / _LOOKS))
            )
    return found
