"""Trains one form on two ranks on hpu and on the CPU, and then from the checkpoints, and compares.

compare.py FORM
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from forms import PIPELINE

_PROGRAM = Path(__file__).with_name("train.py")
# Both devices round products differently. A wrong gradient changes a loss by 0.01 and more.
_TOLERANCE = {"bf16": 5e-3}


def train(device: str, form: str, folder: str, *options: str) -> dict[int, list[float]]:
    """The losses by rank."""
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run"]
    command += ["--standalone", "--nproc-per-node", "2", str(_PROGRAM), form, folder, *options]
    done = subprocess.run(
        command,
        env={**os.environ, "DS_ACCELERATOR": device},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("LOSSES ")]
    found = [json.loads(line.removeprefix("LOSSES ")) for line in lines]
    if done.returncode or len(found) != 2:
        sys.exit(f"{form} on {device} failed:\n{done.stdout}")
    return dict(found)


def main(form: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs: list[tuple[str, ...]] = [()]
        if form != PIPELINE:
            runs.append(("--load",))
        for options in runs:
            losses = {
                device: train(device, form, f"{folder}/{device}", *options)
                for device in ("hpu", "cpu")
            }
            largest = max(
                abs(on_hpu - on_cpu)
                for rank in (0, 1)
                for on_hpu, on_cpu in zip(losses["hpu"][rank], losses["cpu"][rank], strict=True)
            )
            what = "from the checkpoint" if options else "from the start"
            print(f"{form} {what}: losses {losses['hpu'][0]}, largest difference {largest:.1e}")
            if not largest <= _TOLERANCE.get(form, 1e-4):
                sys.exit(f"the losses on the CPU are {losses['cpu'][0]}")


if __name__ == "__main__":
    main(sys.argv[1])
