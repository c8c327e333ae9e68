"""The five models: one graph each, no eager segment, the result that f64 gives; the examples."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from paths import ROOT

sys.path.insert(0, str(ROOT / "examples"))

from helpers import fresh_process
from models import MODELS, largest_error, make_model, outputs_of, to_device

from habana_frameworks.torch.dynamo import report

# Shares of the output's range, against f64. Roundings of the layers add up as their squares do, and
# norms keep those of earlier layers small, so four units of bf16 are enough for any depth.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 4 * 2**-8}
DTYPES = [torch.float32, torch.bfloat16]


def check_model(name: str, dtype: torch.dtype, batch: int, small: bool) -> None:
    fresh_process()
    case = make_model(name, small, dtype=dtype)
    inputs = to_device(case.inputs(batch), "cpu", dtype)
    with torch.inference_mode():
        expected = outputs_of(case.model(**inputs))
        wide = copy.deepcopy(case.model).double()
        exact = outputs_of(wide(**to_device(inputs, "cpu", torch.float64)))
        compiled = torch.compile(case.model.to("hpu"), backend="hpu_backend")
        got = outputs_of(compiled(**to_device(inputs, "hpu", dtype)))
    summary = report()
    assert len(summary.graphs) == 1
    assert summary.eager_segments == 0, summary.eager_reasons
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.stride() == theirs.stride()
    error, own = largest_error(got, exact), largest_error(expected, exact)
    assert error <= max(TOLERANCE[dtype], own)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_small_model(name, dtype):
    check_model(name, dtype, 2, small=True)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_full_model(name, dtype, batch):
    check_model(name, dtype, batch, small=False)


def run_example(*arguments: str, cache: Path, timeout: float = 300) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT / "examples",
        env={**os.environ, "HPU_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_sentence_similarity_twice(private_cache):
    """The main example; its second run compiles nothing."""
    command = ("sentence_similarity.py", "--json", "--seconds", "0")
    first = json.loads(run_example(*command, cache=private_cache))
    assert first["within tolerance"]
    assert first["eager segments"] == 0
    assert first["compiled"] == first["graphs"] == 1
    second = json.loads(run_example(*command, cache=private_cache))
    assert (second["compiled"], second["from the store"]) == (0, second["graphs"])
    assert second["within tolerance"]


def test_sentence_similarity_text(private_cache):
    text = run_example("sentence_similarity.py", "--seconds", "0", cache=private_cache)
    assert "-> Let the dough rise for an hour before baking." in text
    assert "CPU eager finds the same sentences." in text


@pytest.mark.parametrize("example", ["graph_break.py", "unsupported_op.py"])
def test_small_example(example, private_cache):
    assert "equals CPU eager" in run_example(example, cache=private_cache)


def test_code_of_readme(private_cache, tmp_path):
    page = (ROOT / "README.md").read_text()
    script = tmp_path / "readme.py"
    script.write_text(page.partition("```python\n")[2].partition("```")[0])
    run_example(str(script), cache=private_cache)


def test_tour(private_cache):
    """The second process does what the text of the tour promises."""
    first = run_example("tour.py", cache=private_cache)
    assert "graph_0: miss, compiled" in first
    assert "1 x eager %0 = aten::i0" in first
    second = run_example("tour.py", cache=private_cache)
    assert "graph_0: hit, store" in second
    assert "0 compiled, 6 found" in second
