"""Sample calls of the operators of torch.ops.hpu for which the compile server has a rule."""

from __future__ import annotations

import torch
from aten_case import Case, T, f, h, i

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

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
BF16, F32 = torch.bfloat16, torch.float32


def q(*sizes: int) -> T:
    return T(sizes, E4M3)


FP8 = [
    Case("hpu.cast_from_fp8.default", q(3, 5), None, F32),
    Case("hpu.cast_from_fp8.default", T((3, 5), E5M2), f(3), BF16, [3, 1]),
    Case("hpu.cast_from_fp8.scalar", q(3, 5), 0.3, F32),
    Case("hpu.cast_from_fp8.scalar_list", q(2, 3), [0.3, 2.0, -1.5], F32),
    Case("hpu.fp8_gemm_v2.default", q(3, 4), False, q(4, 5), False, None, F32, f(), f(5), f(5)),
    Case(
        "hpu.fp8_gemm_v2.scalar",
        q(2, 4, 3),
        True,
        q(5, 4),
        True,
        f(2, 3, 5),
        F32,
        0.5,
        2.0,
        None,
        True,
    ),
    Case(
        "hpu.fp8_gemm_v2.scalar_list",
        q(3, 4),
        False,
        q(4, 2),
        False,
        None,
        F32,
        [2.0],
        [0.5, 3.0],
        None,
        False,
        [1, 2],
    ),
    Case("hpu.softmax_fp8.default", h(3, 5), -1, None, None, f()),
    Case("hpu.sum_fp8.default", q(3, 5), None, False, F32),
    Case("hpu.sum_fp8.default", q(3, 5), [1], True, F32),
]


def attention(*more: object, heads: int = 2) -> Case:
    operands = f(2, 4, 3, 6), f(2, heads, 3, 6), f(2, heads, 3, 6)
    return Case("hpu.sdpa_recomp_fwd.default", *operands, *more)


ATTENTION = [
    attention(None, 0.0, 0.5, True, True, "none", None, "right", heads=4),
    attention(f(2, 1, 3, 3), 0.0, 0.5, False, True, "fast", None, "left"),
    attention(None, 0.0, 0.5, False, True, "none", i(2), "right", [2, 0], f(4)),
    Case(
        "hpu.sdpa_recomp_bwd.default",
        f(2, 4, 3, 6),
        f(2, 4, 3, 6),
        f(2, 2, 3, 6),
        f(2, 2, 3, 6),
        f(2, 1, 3, 3),
        f(2, 4, 3, 1),
        f(2, 4, 3, 1),
        None,
        False,
        0.0,
        0.5,
        "none",
        f(2, 4, 3, 6),
    ),
]


def experts(overload: str, *weights: list[T], after: tuple[object, ...]) -> Case:
    return Case(f"hpu.mixture_of_experts.{overload}", f(5, 4), i(5, 2), f(5, 2), *weights, *after)


EXPERTS = [
    experts("default", *[[f(3, 4)] * 2] * 2, [f(4, 3)] * 2, after=(True, "silu", 0, 1)),
    experts("fused_weights", [f(4, 6)] * 2, [f(3, 4)] * 2, after=(False, "gelu", 1, 2)),
    experts(
        "bias_fused_weights",
        [f(6, 4)] * 2,
        [f(4, 3)] * 2,
        [f(6)] * 2,
        [f(4)] * 2,
        after=(True, 0, 1),
    ),
    experts(
        "fp8_measurement", *[[f(3, 4)] * 2] * 2, [f(4, 3)] * 2, after=(True, "relu", 0, 1, True)
    ),
    experts(
        "fp8_measurement_fused_weights",
        [f(6, 4)] * 2,
        [f(4, 3)] * 2,
        after=(True, "relu", 0, 1, True),
    ),
    *(
        Case(
            f"hpu.mixture_of_experts.fp8_fused_weights{kind}",
            q(5, 4),
            i(5, 2),
            f(5, 2),
            [q(6, 4)] * 2,
            [q(4, 3)] * 2,
            f(),
            *between,
            [f(6)] * 2,
            [f(1)] * 2,
            True,
            "silu",
            0,
            1,
        )
        for kind, between in (("", ([f(1)] * 2,)), ("_scalars", (f(),)), ("_dynamic", ()))
    ),
]
INT4 = [
    Case(f"hpu.convert_from_{kind}.default", T((4, 2), torch.int32), f(2, 16), zero, F32, *index)
    for kind, zero, index in (
        ("uint4", None, ()),
        ("uint4", T((2, 2), torch.int32), ()),
        ("int4", f(2, 16), (i(4),)),
    )
]
SOFTMAXES = [
    Case("hpu.block_softmax.default", f(3, 2, 2, 1, 4), f(3, 1, 1, 1, 4), i(3)),
    Case("hpu.block_softmax.default", f(3, 2, 1, 4), None, i(3)),
    Case(
        "hpu.block_softmax_adjustment.default",
        f(3, 2, 2, 1, 1),
        f(3, 2, 2, 1, 1),
        i(3),
        1,
        [3, 2, 2, 1, 1],
    ),
    Case("hpu.softmax_fa2.default", f(3, 5)),
    Case("hpu.softmax_fa2.default", f(3, 5), inputM=f(3), inputL=f(3)),
    Case("hpu.custom_softmax.default", h(3, 5), 0),
    Case("hpu.rms_norm.default", f(3, 5), f(5), 1e-5),
    Case("hpu.rms_norm_fast.default", h(3, 5), h(5), 1e-5),
]
KERNELS = [*ROTARY, *FP8, *ATTENTION, *EXPERTS, *INT4, *SOFTMAXES]
