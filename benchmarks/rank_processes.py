"""Runs a benchmark in several ranks, each a fresh process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch.distributed as dist


def join(backend: str) -> None:
    """Joins the process group of the ranks that run_ranks started."""
    dist.init_process_group(
        backend,
        init_method="file://" + os.environ["MEETING_FILE"],
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )


def run_ranks(program: str, arguments: list[str], ranks: int, **variables: str) -> list[Any]:
    """Returns what each rank printed in its last line, as JSON. BEGIN is the time of its start."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(ranks):
            own = {
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "LOCAL_WORLD_SIZE": str(ranks),
                "MEETING_FILE": f"{folder}/meeting",
                "BEGIN": str(time.time()),
            }
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-W", "ignore", program, *arguments],
                    env=os.environ | own | variables,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        outputs = [process.communicate(timeout=900)[0] for process in processes]
    return [json.loads(output.splitlines()[-1]) for output in outputs]
