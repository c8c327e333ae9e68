"""Calls that select, count, measure and sample, as in aten_samples.py."""

from __future__ import annotations

import torch
from aten_case import T, a, b, f, h, i


def n(*sizes: int) -> T:
    return T(sizes, torch.float16)


def i32(*sizes: int) -> T:
    return T(sizes, torch.int32)


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
    *(
        a(f"{name}_shift.{form}", *args)
        for name in ("bitwise_left", "bitwise_right")
        for x in (i, i32)
        for form, args in (
            ("Tensor", (x(3, 5), x(5))),
            ("Tensor_Scalar", (x(4), 2)),
            ("Scalar_Tensor", (5, x(4))),
        )
    ),
    a("__lshift__.Tensor", i(3, 5), i(5)),
    a("__rshift__.Tensor", i32(3, 5), i32(5)),
    a("_add_relu.Tensor", f(3, 5), f(5), alpha=0.5),
    a("_add_relu.Scalar", f(3, 5), 0.25),
    a("remainder.Scalar_Tensor", 5, f(3, 5)),
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
    a("searchsorted.Scalar", f(1), 0.5),
    a("searchsorted.Tensor", f(1), f(4), sorter=T((1,), torch.int64)),
    *(a("bucketize.Tensor", f(3, 5), f(1), right=right) for right in (False, True)),
    a("bucketize.Scalar", 0.25, f(1), out_int32=True),
    *(a("_aminmax.default", x(3, 5)) for x in (f, b)),
    *(a("_aminmax.dim", x(3, 5), 1, True) for x in (f, i)),
    *(a("_pdist_forward.default", f(5, 3), p) for p in (0.0, 1.0, 2.0, float("inf"))),
    a("embedding_renorm.default", f(6, 3), i(4), 0.5, 2.0),
    *(a("scatter.value_reduce", f(2, 5), 1, i(2, 3), 2.0, reduce=r) for r in ("add", "multiply")),
    a("logspace.default", 0, 3, 7),
    a("logspace.default", -1, 2, 4, 2.5, dtype=torch.bfloat16),
    a("histc.default", f(20), 5, -1, 1),
    a("histc.default", f(4, 5), 3, 0.0, 0.5),
    a("histc.default", f(20), 4),
    *(a("logcumsumexp.default", x(3, 7), d) for x in (f, h) for d in (0, 1)),
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
    *(
        a("multi_margin_loss_backward.default", grad, x, target, p, 0.7, f(5), reduction)
        for reduction in (0, 1, 2)
        for p in (1, 2)
        for grad, x, target in ((f(4) if reduction == 0 else f(), f(4, 5), i(4)), (f(), f(5), i()))
    ),
    *(
        a("multilabel_margin_loss_forward.default", x, target, reduction)
        for reduction in (0, 1, 2)
        for x, target in ((f(4, 5), i(4, 5)), (f(5), i(5)))
    ),
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

FROM_PYTORCH = [  # PyTorch's Python took these apart
    *(a(f"{name}.default", f(3, 5)) for name in ("deg2rad", "rad2deg", "isneginf", "isposinf")),
    *(a(f"{name}.default", i(5)) for name in ("deg2rad", "isposinf", "special_entr")),
    a("special_entr.default", h(9)),
    *(
        a(f"{name}.default", x(3, 5), x(5))
        for name in ("heaviside", "logaddexp2", "special_xlog1py")
        for x in (f, h)
    ),
    a("ldexp.Tensor", f(3, 5), i(5)),
    a("ldexp.Tensor", h(3, 5), h(5)),
    *(a("nansum.default", x(3, 5), [1]) for x in (f, h, i)),
    a("nansum.default", f(3, 5), None, dtype=torch.float32),
    a("count_nonzero.default", f(3, 5)),
    a("count_nonzero.default", i(3, 5), 1),
    a("count_nonzero.dim_IntList", b(3, 5), [0]),
    *(a("dist.default", f(3, 5), f(5), p) for p in (1, 2, 3, float("inf"))),
    a("vdot.default", f(5), f(5)),
    a("addr.default", f(3, 4), f(3), f(4), beta=0.5, alpha=2),
    a("addr.default", i(3, 4), i(3), i(4)),
    a("addr.default", h(4), h(3), h(4), beta=0),
    a("linalg_cross.default", f(4, 3), f(4, 3)),
    a("linalg_cross.default", i(1, 3, 2), i(4, 3, 2), dim=1),
    *(a("take.default", x(3, 4), i(2, 5)) for x in (f, i)),
    a("diag_embed.default", f(2, 3)),
    a("diag_embed.default", f(2, 3), 1, 0, 2),
    a("diag_embed.default", b(3), -2),
    *(a("trace.default", x(4, 3)) for x in (f, h, i)),
    *(a("eye.default", 4, dtype=dtype) for dtype in (None, torch.int64, torch.bool)),
    a("eye.m", 3, 5),
    *(a("rot90.default", f(2, 3, 4), turns, [0, 2]) for turns in (-1, 0, 1, 2, 3)),
    a("channel_shuffle.default", f(2, 6, 3, 2), 3),
    a("broadcast_tensors.default", [f(3, 1), i(4)]),
    a("unfold_copy.default", f(2, 9, 3), 1, 4, 2),
    a("alias_copy.default", f(3)),
    a("expand_copy.default", f(3, 1), [2, 3, 4]),
    a("narrow_copy.default", f(5, 2), 0, 1, 3),
    a("permute_copy.default", f(2, 3, 4), [2, 0, 1]),
    a("select_copy.int", f(3, 4), 1, -1),
    a("slice_copy.Tensor", f(5, 6), 1, 1, -1, 2),
    a("split_copy.Tensor", f(5, 2), 2),
    a("split_with_sizes_copy.default", f(5, 2), [1, 4]),
    a("squeeze_copy.default", f(1, 3, 1)),
    a("squeeze_copy.dim", f(1, 3, 1), 0),
    a("t_copy.default", f(2, 3)),
    a("transpose_copy.int", f(2, 3, 4), 0, -1),
    a("unbind_copy.int", f(3, 2)),
    a("unsqueeze_copy.default", f(3), -1),
    a("view_copy.default", f(3, 4), [2, 6]),
    a("diagonal_copy.default", f(3, 4, 5), 1, 0, 2),
]

COMPOSITES = [
    *POINTWISE,
    *SELECTION,
    *INDEXED,
    *DISTANCES,
    *MARGINS,
    *SAMPLED,
    *FROM_PYTORCH,
]
