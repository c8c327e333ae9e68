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
# version, bytes, free bytes, nanoseconds of finished work, begin of the running work
_NUMBERS = struct.Struct("=5Q")
_VERSION = 1


@dataclass(frozen=True)
class _Numbers:
    total: int
    free: int
    busy_ns: int
    since_ns: int


@dataclass(frozen=True)
class Process:
    pid: int
    name: str
    total: int
    used: int
    utilization: int  # per cent of the time between two looks


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


def _utilization(before: _Numbers, after: _Numbers, start_ns: int, end_ns: int) -> int:
    busy = after.busy_ns - before.busy_ns
    if after.since_ns:
        busy += end_ns - max(after.since_ns, start_ns)
    if before.since_ns:
        busy -= start_ns - before.since_ns if after.since_ns != before.since_ns else 0
    return max(0, min(100, round(100 * busy / (end_ns - start_ns))))


def processes(seconds: float) -> list[Process]:
    """Looks twice, `seconds` apart, if there is a process at all."""
    start_ns = time.monotonic_ns()
    first = [(pid, file, numbers) for pid, file in _files() if (numbers := _read(file))]
    if first:
        time.sleep(seconds)
    end_ns = time.monotonic_ns()
    found = []
    for pid, file, before in first:
        after = _read(file)
        try:
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if after is not None:
            used = after.total - after.free
            percent = _utilization(before, after, start_ns, end_ns)
            found.append(Process(pid, name, after.total, used, percent))
    return found
