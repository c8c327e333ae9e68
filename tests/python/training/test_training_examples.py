"""examples/training and benchmarks/training.py, in short forms."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from paths import ROOT


def run_script(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / script), *arguments]
    # Tests share the cores; OpenMP's threads of one test would spin while those of another work.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def figures_behind(text: str, out: str) -> list[float]:
    """The number at the end of the part of each line that begins with `text`."""
    return [float(found) for found in re.findall(re.escape(text) + r"\D*([0-9.e-]+)", out)]


# BERT takes enough steps to learn from neighbours.
LANGUAGE_MODELS = {
    "gpt": ("--size", "32", "--layers", "2", "--batch", "4", "--steps", "12"),
    "bert": ("--size", "64", "--layers", "1", "--batch", "16", "--steps", "600"),
}


@pytest.mark.parametrize("model", LANGUAGE_MODELS)
def test_the_example_of_language_models(model, tmp_path):
    arguments = ("--model", model, *LANGUAGE_MODELS[model], "--folder", str(tmp_path))
    out = run_script("examples/training/language_model.py", *arguments)
    assert "0 eager segments" in out
    losses = re.findall(r"step +\d+: loss ([0-9.]+), CPU eager ([0-9.]+)", out)
    assert len(losses) >= 5
    for ours, theirs in losses:
        assert abs(float(ours) - float(theirs)) < 1e-2
    assert len(apart := figures_behind("losses differ by ", out)) == 2
    assert max(apart) < 1e-2
    assert "on hpu:\n" in out
    assert (tmp_path / "loss.svg").read_text().count("<polyline") == 2
    if model == "bert":
        ((right, guessed),) = re.findall(r"(\d+)% of .* gaps are filled .* be (\d+)%", out)
        assert int(right) > 1.4 * int(guessed)


def test_the_example_of_photographs(tmp_path):
    arguments = ("--steps", "7", "--batch", "4", "--folder", str(tmp_path))
    out = run_script("examples/training/photographs.py", *arguments)
    assert "0 eager segments" in out
    (first,) = re.findall(r"step +0: loss ([0-9.]+), CPU eager ([0-9.]+)", out)
    assert abs(float(first[0]) - float(first[1])) < 1e-3
    assert len(figures_behind("losses differ by ", out)) == 2
    assert out.count("of 256 held-out pieces are recognised") == 2


def test_the_guides_program(tmp_path):
    """P1 of the guide: equal log lines on hpu and on the CPU, up to rounding."""
    folder = tmp_path / "made"
    out = run_script("examples/training/digits.py", "--epochs", "2", "--folder", str(folder))
    assert "0 eager segments" in out
    lines = [line for line in out.splitlines() if line.startswith("Train Epoch: ")]
    ours, theirs = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    assert lines[0].startswith("Train Epoch: 1 [0/1500.0 (0%)]\tLoss: ")
    assert len(ours) == len(theirs) == 6
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.rpartition(" ")[0] == other.rpartition(" ")[0]
        assert abs(float(mine.split()[-1]) - float(other.split()[-1])) < 1e-2
    assert "differ by" in out
    assert (folder / "loss.svg").read_text().count("<polyline") == 2


# The losses at the beginning: ln 10; and the power of the noise, about which nothing is learned
# yet.
@pytest.mark.parametrize(("case", "loss"), [("mlp", 2.3), ("unet", 1.0)])
def test_a_contender_of_the_benchmark(case, loss):
    command = ("hpu cold", case, "--layers", "1", "--seconds", "0.01")
    printed = run_script("benchmarks/training.py", *command).splitlines()[-1]
    figures = json.loads(printed.removeprefix("FIGURES "))
    assert figures["eager_segments"] == 0
    assert 0 < figures["steady_min_ms"] <= figures["steady_ms"] < figures["first_ms"]
    assert figures["loss"] == pytest.approx(loss, abs=0.3)
