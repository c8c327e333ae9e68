"""Pooling and padding of volumes, as in aten_samples.py."""

from __future__ import annotations

import torch
from aten_case import Case, T, a, f, i


def narrow(*sizes: int) -> T:
    return T(sizes, torch.float16)


X = f(2, 3, 5, 6, 7)

FORWARD = [
    a("avg_pool3d.default", X, [2]),
    a("avg_pool3d.default", X, [2, 3, 2], [2, 1, 3]),
    *(
        a("avg_pool3d.default", X, [2, 3, 2], [2, 2, 3], [1, 1, 1], ceil, counts, divisor)
        for ceil in (False, True)
        for counts in (False, True)
        for divisor in (None, 3)
    ),
    a("avg_pool3d.default", f(3, 5, 6, 7), [5, 4, 7], [4, 2, 5], [2, 1, 3], True),
    a("_adaptive_avg_pool3d.default", X, [2, 3, 5]),
    a("_adaptive_avg_pool3d.default", f(3, 5, 6, 7), [1, 1, 1]),
    a("max_pool3d_with_indices.default", X, [2]),
    a("max_pool3d_with_indices.default", X, [3, 2, 3], [2], [1, 0, 1], [1], True),
    a("max_pool3d_with_indices.default", f(3, 5, 6, 7), [2], [1], [0], [2, 1, 3]),
    a("max_pool3d_with_indices.default", narrow(1, 2, 4, 4, 4), [2], [2], [1]),
    a("adaptive_max_pool3d.default", X, [5, 3, 7]),
    a("adaptive_max_pool3d.default", X, [2, 4, 5]),
    a("adaptive_max_pool3d.default", f(3, 5, 6, 7), [1, 2, 1]),
    *(
        a(f"{name}_pad3d.default", x, [1, 2, 0, 3, 2, 1])
        for name in ("reflection", "replication")
        for x in (X, f(3, 5, 6, 7))
    ),
]


def pooled(grad: T, x: T, *args: object) -> Case:
    return a("avg_pool3d_backward.default", grad, x, *args)


WITHOUT = ([0], False, True, None)

BACKWARD = [
    pooled(f(2, 3, 2, 3, 3), X, [2], [], *WITHOUT),
    pooled(f(2, 3, 4, 2, 3), X, [2, 3, 2], [1, 2, 2], *WITHOUT),
    pooled(f(2, 3, 3, 3, 3), X, [2, 3, 2], [2, 2, 3], [1, 1, 1], False, True, None),
    pooled(f(2, 3, 3, 4, 3), X, [2, 3, 2], [2, 2, 3], [1, 1, 1], True, False, None),
    pooled(f(3, 2, 2, 3), f(3, 5, 6, 7), [2, 3, 2], [2, 3, 2], [0], False, True, 5),
    a("_adaptive_avg_pool3d_backward.default", f(2, 3, 5, 2, 7), X),
    a("_adaptive_avg_pool3d_backward.default", f(2, 3, 2, 4, 5), X),
    a("_adaptive_avg_pool3d_backward.default", f(3, 1, 1, 1), f(3, 5, 6, 7)),
    a("adaptive_max_pool3d_backward.default", f(2, 3, 2, 3, 4), X, i(2, 3, 2, 3, 4)),
    a("fractional_max_pool2d_backward.default", f(2, 3, 3, 4), f(2, 3, 6, 7), [2], [3, 4],
      i(2, 3, 3, 4)),
    a("fractional_max_pool3d_backward.default", f(3, 2, 3, 4), f(3, 5, 6, 7), [2], [2, 3, 4],
      i(3, 2, 3, 4)),
    a("max_pool3d_with_indices_backward.default", f(2, 3, 2, 3, 3), X, [2], [2], [0], [1], False,
      i(2, 3, 2, 3, 3)),
    a("max_pool3d_with_indices_backward.default", narrow(3, 2, 3, 3), narrow(3, 5, 6, 7), [2], [2],
      [0], [1], False, i(3, 2, 3, 3)),
    *(
        a(f"{name}_pad3d_backward.default", f(2, 3, 8, 9, 10), X, [1, 2, 0, 3, 2, 1])
        for name in ("reflection", "replication")
    ),
]  # fmt: skip
