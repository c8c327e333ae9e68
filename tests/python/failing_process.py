"""Runs user code in a process and against a cache folder of its own, for the tests of failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import processes

_SECONDS = 240

PROGRAM = """
import json, sys, time, torch, habana_frameworks.torch
from habana_frameworks.torch.dynamo import report
def function(x, w):
    return torch.softmax(torch.relu(x @ w) + 1, -1)
torch.manual_seed(0)
x, w = torch.randn(4, 6), torch.randn(6, 5)
{before}
started = time.monotonic()
with torch.no_grad():
    got = torch.compile(function, backend="hpu_backend")(x.to("hpu"), w.to("hpu"))
    torch.testing.assert_close(got.cpu(), function(x, w))
seconds = time.monotonic() - started
graph = report().graphs[-1]
{after}
print(json.dumps({{"origin": graph.origin, "reason": graph.reason, "seconds": seconds}}))
"""


def command(before: str = "", after: str = "") -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(before=before, after=after)]


def environment(cache: Path, **extra: str) -> dict[str, str]:
    return {**os.environ, "HPU_CACHE_DIR": str(cache), **extra}


def run(
    cache: Path,
    before: str = "",
    after: str = "",
    prefix: Sequence[str] = (),
    **extra: str,
) -> dict[str, object]:
    """The graph's origin and reason after a run whose result was right.

    prefix: a command that runs the program under other conditions.
    """
    return run_python(cache, PROGRAM.format(before=before, after=after), prefix, **extra)


def run_python(
    cache: Path, source: str, prefix: Sequence[str] = (), **extra: str
) -> dict[str, Any]:
    """The JSON object in the last line that a program prints."""
    if prefix:
        done = subprocess.run(
            [*prefix, sys.executable, "-c", source],
            env=environment(cache, **extra),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    else:
        done = processes.run_python(source, timeout=_SECONDS, HPU_CACHE_DIR=str(cache), **extra)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def hpu_compile(
    cache: Path, *arguments: str, prefix: Sequence[str] = (), **extra: str
) -> dict[str, Any]:
    """The answer of a command of the tool."""
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "habana_frameworks.torch.cli", *arguments, "--json"],
        env=environment(cache, **extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # exit code 1 may just mean that the answer reports a problem
    assert done.stdout, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def daemon_pid(cache: Path) -> int:
    return int(hpu_compile(cache, "status")["pid"])


def log_of(status: dict[str, Any]) -> str:
    return Path(status["log"]).read_text()
