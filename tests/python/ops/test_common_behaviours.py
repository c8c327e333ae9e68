"""Compilers of PyTorch programs often get these functions wrong. Values, types, strides, aliases
and written inputs are those of CPU eager."""

from __future__ import annotations

import pytest
import torch
from common_cases import SUBJECTS
from helpers import check

ROWS = [(subject, name) for subject, rows in SUBJECTS.items() for name in rows]
# PyTorch's CPU kernels have no bf16 for two of these.
NARROW = [
    (subject, name)
    for subject in ("reductions", "images")
    for name, (_, *inputs) in SUBJECTS[subject].items()
    if inputs[0].dtype == torch.float32 and name not in ("cdist", "local_response_norm")
]


def test_there_are_many():
    assert len(ROWS) > 200


@pytest.mark.parametrize(("subject", "name"), ROWS, ids=lambda value: value)
def test_equals_eager(subject, name):
    function, *inputs = SUBJECTS[subject][name]
    check(function, *inputs, calls=1, share=subject == "places")


@pytest.mark.parametrize(("subject", "name"), NARROW, ids=lambda value: value)
def test_narrow_inputs(subject, name):
    """The result is within the roundings of bf16 from that of f64."""
    function, *inputs = SUBJECTS[subject][name]
    given = [x.bfloat16() if x.dtype == torch.float32 else x for x in inputs]
    check(function, *given, calls=1)


DYNAMIC = [row for row in ROWS if row[0] in ("views", "sizes")]


@pytest.mark.parametrize(("subject", "name"), DYNAMIC, ids=lambda value: value)
def test_sizes_that_may_change(subject, name):
    function, *inputs = SUBJECTS[subject][name]
    check(function, *inputs, calls=1, dynamic=True)


def test_random_numbers_of_a_seed():
    """The same seed gives the same numbers again, including those drawn after the call; the next
    call draws others."""

    def draw(x):
        return torch.rand_like(x) + torch.nn.functional.dropout(x, 0.5)

    compiled = torch.compile(draw, backend="hpu_backend")
    x = torch.ones(64, device="hpu")
    with torch.no_grad():
        torch.manual_seed(7)
        first, second, after = compiled(x).cpu(), compiled(x).cpu(), torch.rand(3, device="hpu")
        torch.manual_seed(7)
        assert torch.equal(compiled(x).cpu(), first)
        assert torch.equal(compiled(x).cpu(), second)
        assert torch.equal(torch.rand(3, device="hpu"), after)
    assert not torch.equal(first, second)
