"""examples/distributed, as the first lines of each program say."""

from __future__ import annotations

import re
import subprocess
import sys

from paths import ROOT


def output_of(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "examples/distributed" / name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_ranks_learn_what_one_process_learns():
    printed = output_of("ddp.py")
    losses = re.findall(r"^rank 0 of 2, step \d+: loss ([\d.]+)$", printed, re.M)
    assert len(losses) == 4
    assert float(losses[2]) < float(losses[0])
    assert "the losses of 2 ranks and of one process differ by" in printed


def test_two_ranks_hold_half_of_the_parameters_each():
    printed = output_of("fsdp.py")
    (held,) = set(re.findall(r"rank \d holds (\d+) of (\d+) parameters", printed))
    assert 2 * int(held[0]) == int(held[1])
    losses = re.findall(r"^rank 0 of 2, step \d+: loss ([\d.]+)$", printed, re.M)
    assert len(losses) == 3
    assert "the losses of 2 ranks and of one process differ by" in printed


def test_two_ranks_generate_what_one_process_generates():
    printed = output_of("tensor_parallel.py")
    assert len(re.search(r"^tokens:(.*)$", printed, re.M).group(1).split()) == 24
    assert "one process generates the same tokens" in printed
