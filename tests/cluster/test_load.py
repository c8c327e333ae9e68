"""benchmarks/cluster_load.py runs: it gives a figure of each kind, of few programs and for a
moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks/cluster_load.py"


def test_the_benchmark_runs(engine, tmp_path):
    if engine != "redis":
        pytest.skip("it measures beside plain Redis")
    results = tmp_path / "results.json"
    words = ["--seconds", "0.2", "--clients", "1,4", "--programs", "5", "--results", str(results)]
    # PyTorch's client needs a package that only benchmarks have.
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *words, "--without", "PyTorch"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(results.read_text())["rows"]
    found = {(row["size"], row["kind"], row["clients"]) for row in rows if row["hits"] > 0}
    kinds = ["hit, local", "hit, remote", "hit, remote, client verifies nothing"]
    kinds.append("Redis GET, C client")
    assert found == {
        (size, kind, clients)
        for size in ("small", "bert-base")
        for kind in kinds
        for clients in (1, 4)
    }
    # Every target has a line with a figure.
    assert done.stdout.count("| yes |") + done.stdout.count("| **no** |") == 4
