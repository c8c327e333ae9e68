"""Other processes: fresh interpreters for behaviour that depends on an import, the environment or a
process's first call, and daemons that hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from eventually import wait_until


def run_python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with more variables in its environment."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def output_of(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """run_python, for a program that must succeed."""
    done = run_python(code, **env)
    assert done.returncode == 0, done.stderr
    return done


def suspend(pid: int) -> None:
    """Sends SIGSTOP and returns when every thread has stopped: one that still runs would answer."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(
        lambda: all(
            path.read_text().rpartition(")")[2].split()[0] == "T"
            for path in Path(f"/proc/{pid}/task").glob("*/stat")
        ),
        f"process {pid} does not stop",
    )
