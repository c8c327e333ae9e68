"""Globals of every kind that traced code may read: what Dynamo can trace gives the right result."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import re
import types
import uuid
from typing import Any

import numpy as np
import pytest
import torch


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Number(enum.IntEnum):
    TWO = 2
    THREE = 3


class Flag(enum.Flag):
    X = 1
    Y = 2


@dataclasses.dataclass(frozen=True)
class Record:
    a: float = 2.0


RECURSIVE_LIST: list[Any] = [1.5]
RECURSIVE_LIST.append(RECURSIVE_LIST)
RECURSIVE_DICT: dict[str, Any] = {"a": 1.5}
RECURSIVE_DICT["self"] = RECURSIVE_DICT
PAIR = collections.namedtuple("PAIR", "a b")(1.0, 2.0)

CASES = [
    (decimal.Decimal("0.5"), lambda x, v: x * (2 if v > 0 else 3)),
    (decimal.Decimal("0.5"), lambda x, v: x * float(str(v + v))),
    (fractions.Fraction(1, 4), lambda x, v: x * float(v)),
    (fractions.Fraction(1, 4), lambda x, v: x * v.denominator),
    (datetime.datetime(2020, 1, 2), lambda x, v: x * v.year),
    (datetime.timedelta(seconds=3), lambda x, v: x * v.total_seconds()),
    (uuid.UUID(int=5), lambda x, v: x * v.int),
    (pathlib.Path("/a/b.c"), lambda x, v: x * (2 if v.suffix == ".c" else 3)),
    (np.float32(0.25), lambda x, v: x * v),
    (np.int64(3), lambda x, v: x * (2 if v > 2 else 3)),
    (np.bool_(True), lambda x, v: x * (2 if v else 3)),
    (np.array([1.0, 2.0]), lambda x, v: x * float(v[1])),
    (np.dtype("float32"), lambda x, v: x * v.itemsize),
    (re.compile("a+"), lambda x, v: x * (2 if v.match("aa") else 3)),
    (range(1, 4), lambda x, v: x * sum(v)),
    (frozenset({1, 2}), lambda x, v: x * sum(v)),
    (slice(0, 2), lambda x, v: x[v] * 2),
    (..., lambda x, v: x[v] * 2),
    (Color.BLUE, lambda x, v: x * (v.value if v is Color.BLUE else 5)),
    (Number.THREE, lambda x, v: x * v),
    (Flag.X | Flag.Y, lambda x, v: x * (2 if Flag.X in v else 3)),
    (RECURSIVE_LIST, lambda x, v: x * v[1][1][0]),
    (RECURSIVE_DICT, lambda x, v: x * v["self"]["a"]),
    (b"ab", lambda x, v: x * v[0]),
    (1 + 2j, lambda x, v: x * v.imag),
    (2**80, lambda x, v: x * (2 if v > 5 else 3)),
    (float("nan"), lambda x, v: x * (2 if v != v else 3)),
    (types.SimpleNamespace(a=2.0), lambda x, v: x * v.a),
    (types.MappingProxyType({"a": 2.0}), lambda x, v: x * v["a"]),
    (collections.deque([1.0, 2.0]), lambda x, v: x * v[1]),
    (collections.Counter("aab"), lambda x, v: x * v["a"]),
    (collections.ChainMap({"a": 2.0}), lambda x, v: x * v["a"]),
    (ipaddress.ip_address("10.0.0.1"), lambda x, v: x * (int(v) % 7)),
    (Record(), lambda x, v: x * v.a),
    (PAIR, lambda x, v: x * v.b),
    (torch.Size([1, 3]), lambda x, v: x.view(v) * 2),
    ("\ud800", lambda x, v: x * len(v)),
]


# The cases in one traced function: a compilation takes longer than everything that it traces here.
GROUP = 10


@pytest.mark.parametrize("begin", range(0, len(CASES), GROUP))
def test_globals_of_any_kind(begin: int) -> None:
    cases = CASES[begin : begin + GROUP]
    x = torch.tensor([1.0, 2.0, 3.0])

    def traced(x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x, value) for value, function in cases]

    with torch.no_grad():
        found = torch.compile(traced, backend="hpu_backend")(x.to("hpu"))
    for (value, _), got, wanted in zip(cases, found, traced(x), strict=True):
        torch.testing.assert_close(got.cpu(), wanted, rtol=0, atol=0, msg=f"of {value!r}")


@pytest.mark.parametrize("convert", [float, int])
def test_what_dynamo_itself_cannot_trace_is_dynamos_error(convert: Any) -> None:
    """Numbers of a decimal.Decimal: Dynamo 2.13 recurses without end on them, with any backend.
    Later ones trace them."""
    value = decimal.Decimal("2.5")

    def traced(x: torch.Tensor) -> torch.Tensor:
        return x * convert(value)

    def outcome(backend: str, device: str) -> torch.Tensor | str:
        torch._dynamo.reset()
        try:
            return torch.compile(traced, backend=backend)(torch.ones(3, device=device)).cpu()
        except torch._dynamo.exc.InternalTorchDynamoError as error:
            if "recursion depth" not in str(error):
                raise
            return "Dynamo's error"

    theirs, ours = outcome("eager", "cpu"), outcome("hpu_backend", "hpu")
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        assert isinstance(ours, torch.Tensor)
        torch.testing.assert_close(ours, traced(torch.ones(3)), rtol=0, atol=0)
