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


def b(*sizes: int) -> T:
    return T(sizes, torch.bool)


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

SELECTION = [
    *(a("kthvalue.default", x(3, 7), k, d) for x in (f, h, i) for k, d in ((1, 1), (2, 0))),
    a("kthvalue.default", f(3, 7), 7, 1, True),
    *(a("median.dim", x(4, 7), d) for x in (f, h, i) for d in (0, 1)),
    a("median.dim", f(3, 8), 1, True),
    *(a("median.default", x(3, 4)) for x in (f, n, i)),
    # Random edges are sorted where there is one: more are in test_decompositions.py, and repeats.
    a("searchsorted.Tensor", f(1), f(3, 5)),
    a("searchsorted.Tensor", f(3, 1), f(3, 5), right=True),
    a("searchsorted.Tensor", i(1), i(5), side="right", out_int32=True),
    a("searchsorted.Tensor", f(1), f()),
    a("histc.default", f(20), 5, -1, 1),
    a("histc.default", f(4, 5), 3, 0.0, 0.5),
    a("masked_scatter.default", f(3, 4), b(3, 4), f(12)),
    a("masked_scatter.default", f(3, 4), b(4), f(3, 5)),
    a("masked_scatter.default", i(3, 4), b(3, 1), i(12)),
    a("masked_scatter_backward.default", f(3, 4), b(3, 4), [13]),
    a("masked_scatter_backward.default", h(3, 4), b(4), [3, 5]),
    *(
        a(f"{name}_indices.default", *size)
        for name in ("tril", "triu")
        for size in ((4, 6), (6, 4, 1), (4, 6, -2), (5, 5, 3))
    ),
    a("tril_indices.default", 3, 3, dtype=torch.int32),
]

INDEXED = [
    *(
        a("index_reduce.default", x(5, 3), 0, i(4), x(4, 3), name, include_self=whole)
        for x in (f, h)
        for name in ("prod", "mean", "amax", "amin")
        for whole in (True, False)
    ),
    a("index_reduce.default", f(3, 5), -1, i(4), f(3, 4), "amax"),
    *(a("put.default", x(3, 4), i(1), x(1)) for x in (f, h, i)),
    *(a("put.default", x(3, 4), i(2, 3), x(2, 3), True) for x in (f, i)),
    a("diagonal_scatter.default", f(4, 6), f(3), 3),
    a("diagonal_scatter.default", f(4, 6), f(3), -1),
    a("diagonal_scatter.default", i(2, 3, 4), i(3, 2), -1, 2, 0),
    a("diagonal_scatter.default", b(3, 3), b(3)),
    a("as_strided_scatter.default", f(3, 4), f(4, 3), [4, 3], [1, 4]),
    a("as_strided_scatter.default", h(3, 4), h(2, 2, 3), [2, 2, 3], [6, 1, 2], 0),
]

DISTANCES = [
    a("_cdist_forward.default", f(5, 4), f(3, 4), 2.0, None),
    a("_cdist_forward.default", f(2, 5, 4), f(2, 3, 4), 2.0, 1),
    a("_cdist_backward.default", f(5, 3), f(5, 4), f(3, 4), 2.0, f(5, 3)),
    a("_cdist_backward.default", f(2, 5, 3), f(2, 5, 4), f(2, 3, 4), 2.0, f(2, 5, 3)),
    a("_trilinear.default", f(4, 3), f(5, 3, 2), f(4, 2), [1, 3], [0], [1, 2], [2, 3]),
    a("_trilinear.default", h(4, 3), h(5, 3, 2), h(4, 2), [1, 3], [0], [1, 2], [2, 3]),
    a("_trilinear.default", f(4, 3), f(4, 3), f(4, 3), [], [], [], []),
    a("conv_tbc.default", f(7, 2, 3), f(3, 3, 4), f(4)),
    a("conv_tbc.default", h(7, 2, 3), h(2, 3, 4), h(4), 1),
    a("_weight_norm_interface_backward.default", f(4, 3, 2), f(4, 3, 2), f(4, 1, 1), f(4, 1, 1), 0),
    a("_weight_norm_interface_backward.default", h(4, 3), h(4, 3), h(1, 3), f(1, 3), 1),
]

MARGINS = [
    a("multilabel_margin_loss_forward.default", x, target, reduction)
    for reduction in (0, 1, 2)
    for x, target in ((f(4, 5), i(4, 5)), (f(5), i(5)))
]

SAMPLED = [
    case
    for mode in (0, 1)
    for padding in (0, 1)
    for align in (True, False)
    for case in (
        a("grid_sampler_2d.default", f(2, 3, 4, 5), f(2, 3, 2, 2), mode, padding, align),
        a("grid_sampler_2d_backward.default", f(2, 3, 3, 2), f(2, 3, 4, 5), f(2, 3, 2, 2),
          mode, padding, align, [True, True]),
    )
]  # fmt: skip

COMPOSITES = [*POINTWISE, *SELECTION, *INDEXED, *DISTANCES, *MARGINS, *SAMPLED]
