"""PyTorch's own operator samples (op_db), with gradients, in three modes and six types.

The lists of what needs the host are exact (operator_outcomes.json, proto/op_calls.json), so that an
operator that gets a recipe is taken out: `operator_modes.py --update` rewrites them."""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import Any

import pytest
import torch
from operator_modes import SAMPLES, TYPES, check
from operator_samples import name_of, operators

# How many operators of each type are in the short run.
SHORT = {"eager": 16, "lazy": 16, "compiled": 3}
# As many of f32 are compiled.
SHORT_COMPILED_F32 = 36
# It wants sizes on the CPU, as on any device.
NOT_COMPILED = {"tensor_split"}

# An element of its gradient has 2.15 times the error that exact_reference.py allows, and PyTorch's
# own has 2.07 times as much: both round each step to f16.
BEYOND_THE_BOUND = {
    ("lazy", "float16", "nn.functional.cosine_embedding_loss"),
    ("compiled", "float16", "nn.functional.cosine_embedding_loss"),
}


@cache
def of_type(dtype: str) -> list[Any]:
    return operators(getattr(torch, dtype))


def cases(mode: str, dtype: str) -> list[tuple[str, str, Any]]:
    return [
        (mode, dtype, op)
        for op in of_type(dtype)
        if mode != "compiled" or op.name not in NOT_COMPILED
    ]


def count(mode: str, dtype: str) -> int:
    return SHORT_COMPILED_F32 if (mode, dtype) == ("compiled", "float32") else SHORT[mode]


def sampled() -> list[tuple[str, str, Any]]:
    return [
        case
        for mode in SHORT
        for dtype in TYPES
        for case in random.Random(f"{mode} {dtype}").sample(cases(mode, dtype), count(mode, dtype))
    ]


def name(case: tuple[str, str, Any]) -> str:
    mode, dtype, op = case
    return f"{mode}-{dtype}-{name_of(op)}"


@pytest.mark.parametrize("case", sampled(), ids=name)
def test_samples(case: tuple[str, str, Any]) -> None:
    mode, dtype, op = case
    check(mode, op, dtype, samples=1 if mode == "compiled" else SAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted({name_of(op) for dtype in TYPES for op in of_type(dtype)}))
def test_all_samples(op: str) -> None:
    wrong = []
    for mode, dtype in itertools.product(SHORT, TYPES):
        for case in cases(mode, dtype):
            if name_of(case[2]) != op or (mode, dtype, op) in BEYOND_THE_BOUND:
                continue
            try:
                check(mode, case[2], dtype, samples=12 if mode == "compiled" else SAMPLES)
            except Exception as error:
                wrong.append(f"{mode}, {dtype}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
