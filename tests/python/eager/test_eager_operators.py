"""PyTorch's own operator samples (op_db) eagerly on hpu, with every call a recipe, against the CPU.

REFUSED has the operators of which some sample needs the host. It must be exact, so that an operator
that gets a recipe is taken out."""

from __future__ import annotations

from typing import Any

import pytest
from eager_case import place_on_cpu
from operator_samples import answered, assert_right, name_of, operators, placed
from refused_operators import REFUSED


def outcome_of(op: Any) -> str:
    """ "right", "refused", or "none" where the CPU has no answer of plain tensors."""
    compared = 0
    for function, tensors, wanted in answered(op):
        try:
            got = function(*placed(tensors, "hpu"))
        except (NotImplementedError, RuntimeError) as error:
            text = str(error)
            assert "has no hpu kernel" in text or "to be on cpu" in text, text
            return "refused"
        assert_right(got, wanted)
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
