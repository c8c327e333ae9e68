"""Sample calls of the operators of torch.ops.hpu for which the compile server has a rule."""

from __future__ import annotations

from aten_case import Case, f, h, i

ROTARY = [
    Case(f"hpu.rotary_pos_embedding{direction}.default", *args, mode)
    for direction in ("", "_backward")
    for mode in (0, 1)
    for args in (
        (f(2, 3, 4, 6), f(2, 1, 4, 6), f(2, 1, 4, 6), None, 0),
        (h(4, 3, 6), f(4, 1, 8), f(4, 1, 8), None, 2),
        (f(2, 3, 4, 6), f(1, 1, 9, 6), f(1, 1, 9, 6), i(2, 4), 0),
    )
]
KERNELS = ROTARY
