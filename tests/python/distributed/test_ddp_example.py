"""examples/distributed/ddp.py, as its first lines say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples/distributed/ddp.py"


def test_two_ranks_learn_what_one_process_learns():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    losses = re.findall(r"^rank 0 of 2, step \d+: loss ([\d.]+)$", done.stdout, re.M)
    assert len(losses) == 4
    assert float(losses[2]) < float(losses[0])
    assert "the losses of 2 ranks and of one process differ by" in done.stdout
