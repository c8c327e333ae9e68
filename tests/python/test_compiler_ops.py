"""Every ATen call the compiler rewrites, against PyTorch: one-node graphs through the pipeline
and the reference interpreter (hpu_opt), on the same numbers."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
import torch
from aten_case import DTYPES, Case, T
from aten_samples import CASES, a, b, f
from backward_samples import CASES as BACKWARD

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_hpu_opt() -> pathlib.Path | None:
    if "HPU_OPT" in os.environ:
        return pathlib.Path(os.environ["HPU_OPT"])
    built = sorted(
        ROOT.glob("build/*/compiler_server/bin/hpu_opt"), key=lambda p: p.stat().st_mtime
    )
    return built[-1] if built else None


HPU_OPT = find_hpu_opt()
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


# Order of equal elements is open.
ANY_INDEX = {"aten.topk.default", "aten.sort.default", "aten.max.dim", "aten.min.dim"}


@pytest.mark.parametrize(
    "case", CASES + BACKWARD, ids=lambda c: f"{c.target}({', '.join(c.text_args)})"
)
def test_matches_torch(case: Case) -> None:
    report = run_hpu_opt(case.text(0))
    assert "aten" not in report["graph"], report["graph"]
    wanted = case.run_torch([tensor["data"] for tensor in report["inputs"]])
    if case.target in ANY_INDEX:
        wanted = wanted[:1]
    for got, want in zip(report["outputs"], wanted, strict=False):
        assert tuple(got["sizes"]) == tuple(want.shape)
        assert DTYPES[got["dtype"]] == want.dtype
        numbers = torch.tensor([float(x) for x in got["data"]], dtype=torch.float64)
        tolerance = 2e-2 if want.dtype == torch.bfloat16 else 2e-5
        torch.testing.assert_close(
            numbers.reshape(want.shape),
            want.to(torch.float64),
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
        )


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
    """What no recipe can hold stays as it was captured, arguments and all."""
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
