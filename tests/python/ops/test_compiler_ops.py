"""Every ATen call that the compiler rewrites, against PyTorch: one-node graphs through the pipeline
and the reference interpreter (hpu_opt), on the same numbers. PyTorch computes in f64, and the bound
is that of exact_reference.py."""

from __future__ import annotations

import json
import subprocess

import pytest
import torch
from aten_case import DTYPES, Case, T, a, b, f
from aten_samples import CASES
from exact_reference import ExactReference
from paths import hpu_opt
from samples.backward import CASES as BACKWARD

HPU_OPT = hpu_opt()
pytestmark = pytest.mark.skipif(HPU_OPT is None, reason="hpu_opt is not built")


def run_hpu_opt(text: str) -> dict:
    process = subprocess.run(
        [str(HPU_OPT), "--pipeline", "--evaluate", "--json", "--values"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr + text
    return json.loads(process.stdout)


# The order of equal elements is not specified.
ANY_INDEX = {
    "aten.kthvalue.default",
    "aten.topk.default",
    "aten.sort.default",
    "aten.max.dim",
    "aten.min.dim",
}


@pytest.mark.parametrize(
    "case", CASES + BACKWARD, ids=lambda c: f"{c.target}({', '.join(c.text_args)})"
)
def test_matches_torch(case: Case) -> None:
    report = run_hpu_opt(case.text(0))
    assert "aten" not in report["graph"], report["graph"]
    tensors = [t.make(x["data"]) for t, x in zip(case.tensors, report["inputs"], strict=True)]
    eager = case.call(tensors)
    compared = 1 if case.target in ANY_INDEX else len(eager)
    exact = ExactReference(lambda *given: case.call(given)[:compared], *tensors)
    for n, (got, want) in enumerate(zip(report["outputs"], eager[:compared], strict=False)):
        assert tuple(got["sizes"]) == tuple(want.shape)
        assert DTYPES[got["dtype"]] == want.dtype
        numbers = torch.tensor([float(x) for x in got["data"]], dtype=torch.float64)
        wrong = exact.excess(n, numbers.reshape(want.shape).to(want.dtype), want)
        assert wrong is None, f"result {n}: {wrong}"


@pytest.mark.parametrize(
    "case",
    [
        a("lgamma.default", f(3)),
        a("feature_dropout.default", f(2, 3), 0.5, True),
        a("conv2d.padding", f(1, 2, 5, 5), f(2, 2, 3, 3), None, [1, 1], "valid", [1, 1], 1),
        a("add.Tensor", T((3,), torch.float64), T((3,), torch.float64)),
        a("nonzero.default", b(3)),
    ],
    ids=lambda c: c.target,
)
def test_stays_eager_or_not(case: Case) -> None:
    """A call that no recipe supports stays as it was captured, with all arguments."""
    process = subprocess.run(
        [str(HPU_OPT), "--pipeline"],
        input=case.text(0),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    eager = case.target != "aten.conv2d.padding"
    assert (f'aten "{case.target}"' in process.stdout) == eager
