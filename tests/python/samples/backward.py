"""The ATen calls of gradients, with sample arguments as in aten_samples.py."""

from __future__ import annotations

import torch
from aten_case import Case, T, a, b, f, h, i

F32 = torch.float32


POINTWISE = [
    *(
        a(f"{name}_backward.default", f(3, 9), f(3, 9))
        for name in ("gelu", "hardswish", "hardsigmoid", "mish", "sigmoid", "silu", "tanh")
    ),
    a("gelu_backward.default", f(3, 9), f(3, 9), approximate="tanh"),
    a("gelu_backward.default", h(3, 9), h(3, 9)),
    a("tanh_backward.default", h(9), h(9)),
    a("threshold_backward.default", f(3, 9), f(3, 9), 0),
    a("hardtanh_backward.default", f(9), f(9), -0.5, 0.75),
    a("leaky_relu_backward.default", f(9), f(9), 0.2, False),
    a("elu_backward.default", f(9), 1.5, 1.25, 1, False, f(9)),
    a("elu_backward.default", f(9), 1.5, 1.25, 1, True, f(9)),
    a("softplus_backward.default", f(9), f(9), 2.0, 1.0),
    a("glu_backward.default", f(3, 4), f(3, 8), 1),
    a("glu_backward.default", f(2, 4), f(4, 4), 0),
    a("log_sigmoid_forward.default", f(9)),
    a("hardshrink.default", f(9), 0.5),
    a("hardshrink_backward.default", f(9), f(9), 0.5),
    a("softshrink.default", f(9), 0.5),
    a("softshrink_backward.default", f(9), f(9), 0.5),
    a("_prelu_kernel.default", f(2, 3, 4), f(1, 3, 1)),
    a("_prelu_kernel_backward.default", f(2, 3, 4), f(2, 3, 4), f(1, 3, 1)),
    a("native_dropout_backward.default", f(3, 4), b(3, 4), 2.0),
    a("logit.default", f(9), 0.25),
    a("logit.default", f(9)),
    a("logit_backward.default", f(9), f(9)),
    a("logit_backward.default", f(9), f(9), 0.25),
]

NORMS = [
    a("_softmax_backward_data.default", f(3, 5), f(3, 5), -1, F32),
    a("_softmax_backward_data.default", f(2, 3, 5), f(2, 3, 5), 1, F32),
    a("_softmax_backward_data.default", h(3, 5), h(3, 5), 1, torch.bfloat16),
    a("_log_softmax_backward_data.default", f(3, 5), f(3, 5), 1, F32),
    a("_safe_softmax.default", f(3, 5), -1),
    a("native_layer_norm.default", f(3, 5), [5], f(5), f(5), 1e-5),
    a("native_layer_norm.default", f(2, 3, 4, 5), [4, 5], None, None, 1e-5),
    a(
        "native_layer_norm_backward.default",
        *(f(3, 4, 5), f(3, 4, 5), [5], f(3, 4, 1), f(3, 4, 1), f(5), f(5), [True, True, True]),
    ),
    a(
        "native_layer_norm_backward.default",
        *(h(3, 8), h(3, 8), [8], h(3, 1), h(3, 1), h(8), h(8), [True, True, True]),
    ),
    a("_fused_rms_norm.default", f(3, 5), [5], f(5), 1e-5),
    a("native_group_norm.default", f(2, 6, 4), f(6), f(6), 2, 6, 4, 3, 1e-5),
    a(
        "native_group_norm_backward.default",
        *(f(2, 6, 3, 2), f(2, 6, 3, 2), f(2, 3), f(2, 3), f(6), 2, 6, 6, 3, [True, True, True]),
    ),
    a(
        "native_batch_norm_backward.default",
        *(f(2, 3, 4, 4), f(2, 3, 4, 4), f(3), None, None, f(3), f(3), True, 1e-5, [True] * 3),
    ),
    a(
        "native_batch_norm_backward.default",
        *(f(4, 3), f(4, 3), f(3), f(3), f(3), f(3), f(3), False, 100.0, [True] * 3),
    ),
    a(
        "_scaled_dot_product_flash_attention_for_cpu.default",
        *(f(2, 3, 4, 8), f(2, 3, 4, 8), f(2, 3, 4, 8), 0.0, True),
    ),
]


def pool(name: str, x: T, grad: T, *args: object) -> Case:
    return a(f"{name}_backward.default", grad, x, *args)


def resized(name: str, size: list[int], more: tuple[object, ...] = (), scale: float = 0) -> Case:
    """The gradient of a resize from 4, 4 x 5, or 4 x 5 x 3 places to `size`."""
    before = [4, 5, 3][: len(size)]
    scales = [scale] * len(size) if scale else []
    return a(f"{name}_backward.default", f(2, 3, *size), size, [2, 3, *before], *more, *scales)


PADDED = [
    a("replication_pad2d.default", f(2, 3, 7, 8), [2, -3, -2, 1]),
    a("replication_pad2d_backward.default", f(2, 3, 6, 7), f(2, 3, 7, 8), [2, -3, -2, 1]),
    *(
        case
        for name in ("reflection", "replication")
        for case in (
            a(f"{name}_pad2d.default", f(2, 3, 4, 5), [1, 2, 3, 0]),
            a(f"{name}_pad2d_backward.default", f(2, 3, 7, 8), f(2, 3, 4, 5), [1, 2, 3, 0]),
            a(f"{name}_pad1d.default", f(2, 3, 5), [4, 1]),
            a(f"{name}_pad1d_backward.default", f(2, 3, 10), f(2, 3, 5), [4, 1]),
        )
    ),
]
UNFOLDED = [
    a("im2col.default", f(2, 3, 6, 7), [3, 2], [1, 2], [1, 0], [2, 1]),
    a("col2im.default", f(2, 18, 15), [6, 7], [3, 2], [1, 2], [1, 0], [2, 1]),
    a("unfold.default", f(2, 9, 3), 1, 4, 2),
    a("unfold_backward.default", f(2, 3, 3, 4), [2, 9, 3], 1, 4, 2),
    a("pixel_unshuffle.default", f(2, 3, 4, 6), 2),
    a("adaptive_max_pool2d.default", f(2, 3, 6, 8), [3, 2]),
    a("adaptive_max_pool2d.default", f(2, 3, 7, 5), [3, 2]),
    a("adaptive_max_pool2d.default", f(3, 4, 6), [5, 4]),
    a("max.dim", b(3, 7), 1),
]

WINDOWS = [
    a("max_pool2d_with_indices.default", f(2, 3, 7, 8), [3, 3], [2, 2], [1, 1]),
    a("max_pool2d_with_indices.default", f(3, 7, 8), [2, 3]),
    # positions that do not fit into 16 bits
    a("max_pool2d_with_indices.default", f(1, 182, 182), [2, 2]),
    a("max_pool2d_with_indices.default", f(1, 2, 9, 9), [2, 2], [2, 2], [0, 0], [3, 2], True),
    pool("avg_pool2d", f(2, 3, 7, 8), f(2, 3, 4, 4), [3, 3], [2, 2], [1, 1], False, True, None),
    pool("avg_pool2d", f(2, 3, 7, 8), f(2, 3, 4, 5), [3, 3], [2, 2], [1, 1], True, False, None),
    pool("avg_pool2d", f(2, 3, 7, 8), f(2, 3, 3, 4), [2, 2], [], [0, 0], False, True, None),
    pool("avg_pool2d", f(3, 7, 8), f(3, 3, 2), [2, 3], [2, 3], [0, 0], False, True, 5),
    pool("avg_pool2d", f(1, 2, 130, 94), f(1, 2, 3, 2), [41, 47], [], [0, 0], False, True, None),
    pool("_adaptive_avg_pool2d", f(2, 3, 6, 8), f(2, 3, 3, 2)),
    pool("_adaptive_avg_pool2d", f(1, 2, 122, 165), f(1, 2, 2, 3)),
    pool("_adaptive_avg_pool2d", f(2, 3, 7, 8), f(2, 3, 3, 5)),
    pool("_adaptive_avg_pool2d", f(3, 7, 8), f(3, 1, 1)),
    resized("upsample_nearest2d", [8, 10]),
    resized("upsample_nearest2d", [8, 10], scale=2.0),
    resized("upsample_nearest2d", [12, 25]),
    resized("upsample_nearest2d", [7, 3]),
    resized("_upsample_nearest_exact2d", [7, 3]),
    resized("_upsample_nearest_exact2d", [8, 15]),
    resized("upsample_bilinear2d", [8, 10], (False,)),
    resized("upsample_bilinear2d", [8, 10], (False,), 2.0),
    resized("upsample_bilinear2d", [8, 10], (True,)),
    resized("upsample_bilinear2d", [3, 7], (False,)),
    resized("upsample_nearest1d", [12]),
    resized("upsample_nearest1d", [7]),
    resized("_upsample_nearest_exact1d", [7]),
    resized("_upsample_nearest_exact1d", [8], scale=2.0),
    resized("upsample_linear1d", [9], (False,)),
    resized("upsample_linear1d", [9], (True,)),
    resized("upsample_linear1d", [1], (True,)),
    resized("upsample_linear1d", [10], (False,), 2.5),
    resized("upsample_nearest3d", [8, 10, 9]),
    resized("upsample_nearest3d", [7, 3, 5]),
    resized("_upsample_nearest_exact3d", [7, 3, 5]),
    resized("upsample_trilinear3d", [8, 10, 6], (False,)),
    resized("upsample_trilinear3d", [3, 7, 4], (True,)),
    resized("upsample_bicubic2d", [8, 10], (False,)),
    resized("upsample_bicubic2d", [8, 10], (True,)),
    resized("upsample_bicubic2d", [3, 7], (False,)),
    resized("upsample_bicubic2d", [1, 12], (True,)),
]

INDEXED = [
    a("embedding_dense_backward.default", f(2, 7, 4), i(2, 7), 5, -1, False),
    a("embedding_dense_backward.default", f(9, 4), i(9), 3, 1, False),
    a("embedding_dense_backward.default", f(9, 4), i(9), 3, -1, True),
    a("embedding_dense_backward.default", h(9, 4), i(9), 3, -1, False),
    a("scatter_add.default", f(4, 6), 0, i(7, 5), f(8, 6)),
    a("scatter_add.default", f(3, 6), 1, i(3, 9), f(3, 9)),
    a("scatter_add.default", i(3, 6), 1, i(3, 9), i(3, 9)),
    a("scatter_add.default", h(5), 0, i(9), h(9)),
    a("scatter_reduce.two", f(3, 6), 1, i(3, 9), f(3, 9), "sum"),
    a("scatter.reduce", f(3, 6), 1, i(3, 9), f(3, 9), reduce="add"),
    a("scatter.reduce", f(3, 6), 1, i(3, 9), f(3, 9), reduce="multiply"),
    *(
        a("scatter_reduce.two", make(5, 6), 1, i(3, 4), make(4, 5), name, include_self=whole)
        for name in ("sum", "mean", "amax", "amin", "prod")
        for whole in (True, False)
        for make in (f, h)
    ),
    a("scatter_reduce.two", i(3, 6), 0, i(9, 6), i(9, 6), "amax"),
    a("index_add.default", f(3, 4), 1, i(7), f(3, 7)),
    a("index_add.default", f(3, 4), 0, i(5), f(5, 4), alpha=0.5),
    a("index_put.default", f(6, 4), [i(9)], f(9, 4), True),
    a("index_put.default", f(6, 4), [i(9)], f(), True),
    a("index_put.default", f(3, 4, 2), [None, i(5)], f(3, 5, 2), True),
    a("index_put.default", f(3, 4, 5, 2), [i(6), None, i(6)], f(6, 4, 2), True),
    a("_unsafe_index_put.default", f(2, 3, 4, 5), [None, None, i(6, 1), i(7)], f(2, 3, 6, 7), True),
    a("_unsafe_index.Tensor", f(2, 3, 4, 5), [None, None, i(6, 1), i(7)]),
    a("select_backward.default", f(3, 5), [3, 4, 5], 1, -1),
    a("select_backward.default", f(), [4], 0, 2),
    a("slice_backward.default", f(3, 2), [3, 5], 1, 1, 3, 1),
    a("slice_backward.default", f(3, 3), [3, 7], 1, 1, 7, 2),
    a("slice_backward.default", f(2, 5), [9, 5], 0, -7, 9, 4),
    a("diagonal.default", f(3, 4, 5), 1, 0, 2),
    a("diagonal.default", f(3, 4, 5), -1, 1, 2),
    a("diagonal_backward.default", f(4, 3), [3, 4, 5], 1, 0, 2),
    a("diagonal_backward.default", f(3, 3), [3, 4, 5], -1, 1, 2),
]


def batch_norm(x: T, tracked: bool, training: bool = True, weighted: bool = True) -> Case:
    c = f(x.sizes[1])
    parameters = (c, c) if weighted else (None, None)
    if not tracked:
        return a("_native_batch_norm_legit.no_stats", x, *parameters, training, 0.25, 1e-3)
    name = "_native_batch_norm_legit_functional.default"
    return a(name, x, *parameters, c, c, training, 0.25, 100.0)


BATCH_NORMS = [
    batch_norm(f(4, 3, 2, 2), True),
    batch_norm(f(4, 3), True),
    batch_norm(f(4, 3, 10, 12), True),  # enough positions that parts have statistics of their own
    batch_norm(f(2, 3, 400), True),
    batch_norm(f(2, 2, 3, 20, 18), False),
    batch_norm(f(4, 3), False, weighted=False),
    batch_norm(f(4, 3, 2, 2), False),
    batch_norm(f(4, 3, 2, 2), True, training=False),
]


def conv(
    x: T, weight: T, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
    transposed: bool = False, more: int = 0,
) -> Case:  # fmt: skip
    spatial = len(x.sizes) - 2
    sizes = []
    for size, kernel in zip(x.sizes[2:], weight.sizes[2:], strict=True):
        reach = dilation * (kernel - 1)
        if transposed:
            sizes.append((size - 1) * stride - 2 * padding + reach + 1 + more)
        else:
            sizes.append((size + 2 * padding - reach - 1) // stride + 1)
    channels = weight.sizes[1] * groups if transposed else weight.sizes[0]
    grad = T((x.sizes[0], channels, *sizes), x.dtype)
    lists = [[value] * spatial for value in (stride, padding, dilation)]
    return a(
        "convolution_backward.default",
        *(grad, x, weight, [channels], *lists, transposed, [more] * spatial, groups, [True] * 3),
    )


CONVOLUTIONS = [
    conv(f(2, 3, 5, 6), f(4, 3, 3, 2)),
    conv(f(2, 3, 5, 6), f(4, 3, 1, 1)),
    conv(f(2, 3, 6, 7), f(4, 3, 3, 3), 1, 1),
    conv(f(2, 3, 6, 7), f(4, 3, 3, 3), 2, 1),
    conv(f(2, 3, 8, 8), f(4, 3, 1, 1), 2),
    conv(f(2, 3, 9, 8), f(4, 3, 3, 3), 3, 0),
    conv(f(2, 4, 9, 7), f(6, 2, 1, 1), 3, 0, 1, 2),
    conv(f(2, 4, 5, 4), f(4, 3, 1, 1), 2, 0, transposed=True),
    conv(f(1, 3, 9, 9), f(4, 3, 3, 3), 1, 2, 2),
    conv(f(1, 3, 11, 9), f(4, 3, 3, 3), 2, 2, 3),
    conv(f(2, 4, 5, 5), f(6, 2, 3, 3), 1, 1, 1, 2),
    conv(f(2, 4, 6, 5), f(6, 2, 3, 3), 2, 1, 1, 2),
    conv(f(2, 4, 6, 5), f(4, 1, 3, 3), 1, 1, 1, 4),
    conv(f(2, 4, 6, 6), f(4, 1, 3, 3), 2, 1, 1, 4),
    conv(f(2, 24, 7, 6), f(24, 4, 3, 3), 2, 1, 1, 6),
    conv(f(2, 4, 5, 5), f(8, 1, 3, 3), 1, 1, 1, 4),
    conv(f(2, 3, 9), f(4, 3, 3), 2, 1),
    conv(f(2, 4, 9), f(4, 1, 3), 1, 1, 1, 4),
    conv(f(2, 3, 4, 5), f(3, 4, 3, 3), 1, 1, transposed=True),
    conv(f(2, 3, 4, 5), f(3, 4, 3, 3), 2, 1, transposed=True, more=1),
    conv(f(2, 4, 4, 5), f(4, 3, 2, 2), 2, groups=2, transposed=True),
    conv(f(2, 3, 5), f(3, 2, 3), 2, transposed=True),
    conv(h(2, 3, 6, 7), h(4, 3, 3, 3), 1, 1),
    conv(f(2, 3, 4, 5, 6), f(4, 3, 2, 3, 2)),
    conv(f(2, 4, 6, 5, 7), f(6, 2, 3, 2, 3), 2, 1, 1, 2),
    conv(f(1, 4, 7, 6, 5), f(4, 1, 3, 3, 3), 1, 2, 2, 4),
    conv(f(2, 4, 3, 4, 3), f(4, 3, 2, 2, 3), 2, 1, 1, 2, transposed=True, more=1),
    conv(h(1, 3, 4, 4, 4), h(4, 3, 3, 3, 3), 1, 1),
]

# The target classes are indices below 3; in some cases an index is ignored.
CLASSES = [
    (f(3), i(), None),
    (f(4, 3), i(4), None),
    (f(4, 3), i(4), f(3)),
    (f(2, 3, 4, 2), i(2, 4, 2), f(3)),
]


def nll(scores: T, target: T, weight: T | None, reduction: int, ignore: int) -> list[Case]:
    name = "nll_loss2d" if len(scores.sizes) == 4 else "nll_loss"
    grad = target if reduction == 0 else f()
    return [
        a(f"{name}_forward.default", scores, target, weight, reduction, ignore),
        a(
            f"{name}_backward.default",
            *(f(*grad.sizes), scores, target, weight, reduction, ignore, f()),
        ),
    ]


LOSSES = [
    *(
        case
        for scores, target, weight in CLASSES
        for reduction in (0, 1, 2)
        for ignore in (-100, 1)
        for case in nll(scores, target, weight, reduction, ignore)
    ),
    *(
        a(f"{name}.default", f(3, 4), f(3, 4), *more, reduction)
        for reduction in (0, 1, 2)
        for name, more in (
            ("mse_loss", ()),
            ("smooth_l1_loss", ()),
            ("huber_loss", ()),
            ("soft_margin_loss", ()),
            ("binary_cross_entropy_with_logits", (None, f(4))),
            ("binary_cross_entropy_with_logits", (f(3, 4), None)),
        )
    ),
    *(
        a(f"{name}_backward.default", f(), f(3, 4), f(3, 4), reduction, *more)
        for reduction in (1, 2)
        for name, more in (
            ("mse_loss", ()),
            ("smooth_l1_loss", (0.5,)),
            ("smooth_l1_loss", (0.0,)),
            ("huber_loss", (0.5,)),
            ("soft_margin_loss", ()),
        )
    ),
    a("binary_cross_entropy_backward.default", f(), f(3, 4), f(3, 4), f(4), 1),
]


def each(name: str, *args: object, **kwargs: object) -> Case:
    return a(f"_foreach_{name}", *args, **kwargs)


X = [f(3, 4), f(5)]
FOREACH = [
    *(
        each(f"{name}.{overload}", X, other)
        for name in ("add", "sub", "mul", "div", "clamp_min", "maximum", "minimum", "pow")
        for overload, other in (("List", X), ("Scalar", 1.5), ("ScalarList", [2.0, 0.5]))
    ),
    *(each(f"{name}.Tensor", X, f()) for name in ("add", "mul", "div")),
    *(each(f"{name}.List", X, X, alpha=0.5) for name in ("add", "sub")),
    *(
        each(f"{name}.default", X)
        for name in ("abs", "exp", "log", "neg", "reciprocal", "rsqrt", "sigmoid", "sign", "sqrt")
    ),
    *(each(f"{name}.Scalar", X, X, X, 0.5) for name in ("addcmul", "addcdiv")),
    *(each(f"{name}.ScalarList", X, X, X, [1.0, -2.0]) for name in ("addcmul", "addcdiv")),
    each("lerp.Scalar", X, X, 0.25),
    each("lerp.Scalar", X, X, 0.75),
    each("lerp.ScalarList", X, X, [0.25, 0.75]),
    each("lerp.List", X, X, X),
    each("pow.ScalarAndTensor", 0.9, X),
    each("norm.Scalar", X),
    each("norm.Scalar", X, 1),
    each("norm.Scalar", X, 3),
    each("norm.Scalar", X, float("inf")),
    each("norm.Scalar", [h(3, 4)]),
    each("max.default", X),
    each("clone.default", X),
    each("copy.default", X, [h(3, 4), f(5)]),
    each("zero.default", X),
    each("add.List", [h(3, 4)], [h(3, 4)], alpha=0.5),
]

CASES = [
    *BATCH_NORMS,
    *INDEXED,
    *PADDED,
    *UNFOLDED,
    *WINDOWS,
    *CONVOLUTIONS,
    *FOREACH,
    *POINTWISE,
    *NORMS,
    *LOSSES,
]
