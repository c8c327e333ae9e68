"""Calls that select, count, measure and sample, as in aten_samples.py."""

from __future__ import annotations

import torch
from aten_case import Case, T


def f(*sizes: int, strides: tuple[int, ...] | None = None) -> T:
    return T(sizes, strides=strides)


def h(*sizes: int) -> T:
    return T(sizes, torch.bfloat16)


def n(*sizes: int) -> T:
    return T(sizes, torch.float16)


def i(*sizes: int) -> T:
    return T(sizes, torch.int64)


def i32(*sizes: int) -> T:
    return T(sizes, torch.int32)


def a(target: str, *args: object, **kwargs: object) -> Case:
    return Case(f"aten.{target}", *args, **kwargs)


POINTWISE = [
    *(
        a(f"{name}", x(3, 5), x(5))
        for name in ("copysign.Tensor", "fmax.default", "fmin.default")
        for x in (f, h, n)
    ),
    *(
        a(f"__{name}shift__.Scalar", x(3, 5), by)
        for name in ("l", "r")
        for x in (i, i32)
        for by in (0, 3)
    ),
    *(a("round.decimals", x(9), decimals=d) for x in (f, h) for d in (-1, 0, 2)),
    a("rrelu_with_noise_functional.default", f(9), f(9)),
    a("rrelu_with_noise_functional.default", h(9), h(9), 0.1, 0.4),
]

COMPOSITES = [*POINTWISE]
