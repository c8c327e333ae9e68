"""Runs user code in a process and against a cache folder of its own, for the tests of failures."""

from __future__ import annotations

import json
import os
import sys
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


def run(cache: Path, before: str = "", after: str = "", **extra: str) -> dict[str, object]:
    """The graph's origin and reason after a run whose result was right."""
    return run_python(cache, PROGRAM.format(before=before, after=after), **extra)


def run_python(cache: Path, source: str, **extra: str) -> dict[str, Any]:
    """The JSON object in the last line that a program prints."""
    done = processes.output_of(source, timeout=_SECONDS, HPU_CACHE_DIR=str(cache), **extra)
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def hpu_compile(cache: Path, *arguments: str, before: str = "", **extra: str) -> dict[str, Any]:
    """The answer of a command of the tool. `before` is Python that its process runs first."""
    done = processes.run_tool(
        *arguments, "--json", before=before, HPU_CACHE_DIR=str(cache), **extra
    )
    # exit code 1 may just mean that the answer reports a problem
    assert done.stdout, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def daemon_pid(cache: Path) -> int:
    return int(hpu_compile(cache, "status")["pid"])


def log_of(status: dict[str, Any]) -> str:
    return Path(status["log"]).read_text()
