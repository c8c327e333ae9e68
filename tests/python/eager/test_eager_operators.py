"""PyTorch's own operator samples (op_db) eagerly on hpu, with every call a recipe, against the CPU.

REFUSED has the operators of which some sample needs the host. It must be exact, so that an operator
that gets a recipe is taken out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from eager_case import place_on_cpu
from operator_samples import closed, is_plain, name_of, operators, placed, samples_of
from refused_operators import REFUSED

SAMPLES = 3


def outcome_of(op: Any) -> str:
    """ "right", "refused", or "none" where the CPU has no answer of plain tensors."""
    compared = 0
    for sample in itertools.islice(samples_of(op), SAMPLES):
        function, tensors = closed(op, sample)
        if not all(is_plain(tensor) for tensor in tensors):
            continue
        try:
            wanted = function(*placed(tensors, "cpu"))
        except Exception:
            continue
        if not all(is_plain(result) for result in wanted):
            continue
        try:
            got = function(*placed(tensors, "hpu"))
        except (NotImplementedError, RuntimeError) as error:
            text = str(error)
            assert "has no hpu kernel" in text or "to be on cpu" in text, text
            return "refused"
        for ours, theirs in zip(got, wanted, strict=True):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
        compared += 1
    return "right" if compared else "none"


def check(op: Any) -> None:
    with place_on_cpu("none"):
        outcome = outcome_of(op)
    expected = ("refused",) if name_of(op) in REFUSED else ("right", "none")
    assert outcome in expected, f"{outcome}; tests/python/eager/refused_operators.py says otherwise"


@pytest.mark.parametrize("op", operators()[::8], ids=name_of)
def test_samples(op: Any) -> None:
    """One operator in eight."""
    check(op)


@pytest.mark.slow
@pytest.mark.parametrize("op", operators(), ids=name_of)
def test_all_samples(op: Any) -> None:
    check(op)


def test_most_operators_need_no_host() -> None:
    """At least 480; 27 others have no answer of plain tensors on the CPU."""
    names = {name_of(op) for op in operators()}
    assert names >= REFUSED
    assert len(names - REFUSED) >= 480 + 27
