"""Other processes: interpreters for behaviour that depends on an import, the environment or a
process's first call, and daemons that hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import forked_interpreters
from eventually import wait_until

_TOOL = "habana_frameworks.torch.cli"
# Variables that this package reads, at its import or later; the last one is about the package.
_READ_LATE = (
    *("EMULATOR_", "ENABLE_", "GC_", "GRAPH_VISUALIZATION", "HABANA_", "HCCL_", "HPU_", "LOG_"),
    *("PT_", "XDG_", "TORCH_DEVICE_BACKEND_AUTOLOAD"),
)


def act_in_forks(names: Iterable[str]) -> bool:
    """Whether PyTorch's import, which is before the fork, reads none of these variables."""
    return all(name.startswith(_READ_LATE) for name in names)


def run_python(
    program: str | Path,
    *arguments: str,
    folder: Path | None = None,
    fresh: bool = False,
    timeout: float = 120,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """Runs code, or a file, with more variables in its environment.

    folder: where it runs, if not in the current folder.

    It is the fork of an interpreter that has imported PyTorch, but not this package. It is a fresh
    interpreter if the program needs one, or if PyTorch may read one of the variables at its import.
    """
    environment = {**os.environ, **env}
    if not fresh and act_in_forks(env):
        return forked_interpreters.run(program, environment, arguments, folder, timeout)
    what = [str(program)] if isinstance(program, Path) else ["-c", program]
    return subprocess.run(
        [sys.executable, *what, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def output_of(program: str | Path, *arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """run_python, for a program that must succeed."""
    done = run_python(program, *arguments, **how)
    assert done.returncode == 0, done.stderr
    return done


def run_tool(*arguments: str, before: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Runs hpu-compile. `before` is Python that its process runs first."""
    program = f"{before}\nimport runpy\nrunpy.run_module({_TOOL!r}, run_name='__main__')"
    return run_python(program, *arguments, timeout=60, **env)


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
