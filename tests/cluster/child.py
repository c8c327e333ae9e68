"""Processes that a test starts, stops, suspends and kills, by their process id only."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from processes import suspend


class Process:
    def __init__(self, command: list[str], **environment: str) -> None:
        self.popen = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        """Sends SIGKILL, which also ends a suspended process."""
        self.popen.kill()
        self.popen.wait()

    def terminate(self, patience: float = 60) -> int:
        self.popen.terminate()
        return self.popen.wait(patience)

    def suspend(self) -> None:
        suspend(self.pid)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def children(self) -> list[int]:
        tasks = Path(f"/proc/{self.pid}/task").glob("*/children")
        return [int(word) for path in tasks for word in path.read_text().split()]

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024
