"""Runs a script in several ranks, each a process of its own, as torchrun does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import forked_interpreters
from processes import act_in_forks

_SECONDS = 240  # a bound for machines that do other work; nothing waits for it when all goes well

PREAMBLE = """
import faulthandler, warnings
faulthandler.dump_traceback_later(200, exit=True)
warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
from torch import nn

def start(backend="hccl", **options):
    import os
    dist.init_process_group(
        backend, init_method="file://" + os.environ["MEETING_FILE"],
        rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]), **options)
    return dist.get_rank(), dist.get_world_size()

def equal(got, wanted):
    torch.testing.assert_close(got.cpu(), wanted, rtol=1e-5, atol=1e-5)
"""


def run_ranks(
    size: int, script: str, variables: dict[str, str] | None = None, fresh: bool = False
) -> list[subprocess.CompletedProcess[str]]:
    """Runs the script in each rank and returns the ended processes.

    variables: of the environment. Each rank is the fork of an interpreter that has imported
    PyTorch, or a fresh one if a variable may have been read by then or the script needs one.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"
        path.write_text(PREAMBLE + script)
        environments = [
            os.environ
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(size),
                "MEETING_FILE": str(Path(folder) / "meeting"),
                "OMP_NUM_THREADS": "1",
            }
            | (variables or {})
            for rank in range(size)
        ]
        in_forks = not fresh and act_in_forks(variables or ())
        run = _run_forked if in_forks else _run_fresh
        return run(path, environments)


def _run_fresh(
    path: Path, environments: list[dict[str, str]]
) -> list[subprocess.CompletedProcess[str]]:
    processes = [
        subprocess.Popen(
            [sys.executable, str(path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environment in environments
    ]
    results = []
    try:
        for process in processes:
            out, errors = process.communicate(timeout=_SECONDS)
            results.append(
                subprocess.CompletedProcess(process.args, process.returncode, out, errors)
            )
    finally:
        for process in processes:
            process.kill()
    return results


def _run_forked(
    path: Path, environments: list[dict[str, str]]
) -> list[subprocess.CompletedProcess[str]]:
    files = [
        (path.with_name(f"output_{rank}"), path.with_name(f"errors_{rank}"))
        for rank in range(len(environments))
    ]
    processes = [
        forked_interpreters.start(path, environment, *of_rank)
        for environment, of_rank in zip(environments, files, strict=True)
    ]
    results = []
    try:
        for process, (out, errors) in zip(processes, files, strict=True):
            process.join(_SECONDS)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired(str(path), _SECONDS)
            results.append(
                subprocess.CompletedProcess(
                    str(path), process.exitcode, out.read_text(), errors.read_text()
                )
            )
    finally:
        for process in processes:
            process.kill()
    return results


def expect_success(
    size: int, script: str, variables: dict[str, str] | None = None, fresh: bool = False
) -> list[str]:
    """Returns what each rank printed; fails the test with the errors of a rank that failed."""
    results = run_ranks(size, script, variables, fresh)
    for rank, result in enumerate(results):
        assert result.returncode == 0, f"rank {rank}: {result.stdout}\n{result.stderr[-4000:]}"
    return [result.stdout for result in results]
