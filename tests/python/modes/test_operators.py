"""PyTorch's own operator samples (op_db), with gradients, in three modes and six types.

The lists of what needs the host are exact (operator_outcomes.json, proto/op_calls.json), so that an
operator that gets a recipe is taken out: `operator_modes.py --update` rewrites them."""

from __future__ import annotations

import random
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


def cases(mode: str, dtype: str) -> list[tuple[str, str, Any]]:
    return [
        (mode, dtype, op)
        for op in operators(getattr(torch, dtype))
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
@pytest.mark.parametrize(
    "case", [case for mode in SHORT for dtype in TYPES for case in cases(mode, dtype)], ids=name
)
def test_all_samples(case: tuple[str, str, Any]) -> None:
    mode, dtype, op = case
    check(mode, op, dtype, samples=12 if mode == "compiled" else SAMPLES)
