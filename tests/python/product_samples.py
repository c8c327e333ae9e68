"""Sample calls of products, convolutions, attention and windows."""

from __future__ import annotations

import torch
from aten_case import Case, T, a, f

from habana_frameworks.torch.dynamo.capture.decompositions.int4_weights import block_columns

PRODUCTS = [
    # products
    a("mm.default", f(3, 4), f(4, 5)),
    a("mm.default", f(3, 4), f(4, 5, strides=(1, 4))),
    a("bmm.default", f(2, 3, 4), f(2, 4, 5)),
    a("matmul.default", f(4), f(4)),
    a("matmul.default", f(3, 4), f(4)),
    a("matmul.default", f(4), f(4, 5)),
    a("matmul.default", f(2, 3, 4), f(4, 5)),
    a("matmul.default", f(2, 1, 3, 4), f(5, 4, 6)),
    a("matmul.default", f(4), f(2, 4, 5)),
    a("matmul.default", f(2, 3, 4), f(4)),
    a("addmm.default", f(5), f(3, 4), f(4, 5)),
    a("addmm.default", f(3, 5), f(3, 4), f(4, 5), beta=0.5, alpha=2),
    a("addmm.default", f(5), f(3, 4), f(4, 5), beta=0),
    a("addmv.default", f(3), f(3, 4), f(4)),
    a("baddbmm.default", f(2, 3, 5), f(2, 3, 4), f(2, 4, 5), beta=2),
    a("addbmm.default", f(3, 5), f(2, 3, 4), f(2, 4, 5)),
    a("addbmm.default", f(3, 5), f(2, 3, 4), f(2, 4, 5), beta=0.5, alpha=2),
    a("mv.default", f(3, 4), f(4)),
    a("dot.default", f(4), f(4)),
    a("outer.default", f(3), f(4)),
    a("linear.default", f(2, 3, 4), f(5, 4), f(5)),
    a("linear.default", f(4), f(5, 4)),
    # quantised weights with few rows and with many
    a("_weight_int8pack_mm.default", f(2, 6), T((5, 6), torch.int8), f(5)),
    a("_weight_int8pack_mm.default", f(20, 6), T((5, 6), torch.int8), f(5)),
    # Where PyTorch's kernels do not pack blocks, such calls never reach the compiler.
    *(
        Case(
            "hpu.int4_matmul.default",
            f(rows, 64),
            T((64, 32), torch.uint8),
            32,
            f(2, 64, 2),
            block_columns(),
        )
        for rows in (2, 20)
        if block_columns()
    ),
    # convolution
    a("conv2d.default", f(2, 3, 6, 7), f(4, 3, 3, 2), f(4), [2, 1], [1, 0], [1, 2]),
    a("conv2d.default", f(1, 4, 5, 5), f(6, 2, 3, 3), None, [1, 1], [1, 1], [1, 1], 2),
    a("conv2d.default", f(1, 4, 5, 5), f(4, 1, 3, 3), f(4), [1, 1], [1, 1], [1, 1], 4),
    a("conv2d.padding", f(1, 2, 5, 6), f(3, 2, 2, 3), None, [1, 1], "same"),
    a("conv1d.default", f(2, 3, 9), f(4, 3, 3), f(4), [2], [1]),
    a("conv3d.default", f(1, 2, 4, 4, 4), f(3, 2, 2, 2, 2), f(3)),
    a(
        "convolution.default",
        f(2, 3, 6, 6),
        f(4, 3, 3, 3),
        f(4),
        [1, 1],
        [0, 0],
        [1, 1],
        False,
        [0, 0],
        1,
    ),
    a(
        "convolution.default",
        f(2, 3, 4, 4),
        f(3, 4, 3, 3),
        f(4),
        [2, 2],
        [1, 1],
        [1, 1],
        True,
        [1, 1],
        1,
    ),
    a("conv_transpose2d.input", f(1, 4, 3, 3), f(4, 3, 2, 3), f(6), [2, 2], [0, 1], [0, 0], 2),
    a("conv_transpose1d.default", f(1, 3, 5), f(3, 2, 3), None, [2]),
    # attention
    a("scaled_dot_product_attention.default", f(2, 3, 4, 8), f(2, 3, 5, 8), f(2, 3, 5, 8)),
    a(
        "scaled_dot_product_attention.default",
        f(2, 3, 4, 8),
        f(2, 3, 4, 8),
        f(2, 3, 4, 8),
        None,
        0.0,
        True,
    ),
    a(
        "scaled_dot_product_attention.default",
        f(2, 3, 4, 8),
        f(2, 3, 4, 8),
        f(2, 3, 4, 8),
        f(4, 4),
        scale=0.5,
    ),
    a("scaled_dot_product_attention.default", f(3, 4, 8), f(3, 4, 8), f(3, 4, 6)),
    a(
        "scaled_dot_product_attention.default",
        f(2, 4, 4, 8),
        f(2, 2, 4, 8),
        f(2, 2, 4, 8),
        enable_gqa=True,
    ),
    a(
        "_scaled_dot_product_flash_attention_for_cpu.default",
        f(2, 3, 4, 8),
        f(2, 3, 4, 8),
        f(2, 3, 4, 8),
        0.0,
        True,
    ),
    # windows
    a("max_pool2d.default", f(2, 3, 7, 8), [3, 3], [2, 2], [1, 1]),
    a("max_pool2d.default", f(3, 7, 8), [2, 3]),
    a("max_pool2d.default", f(1, 2, 7, 7), [3, 3], [2, 2], [0, 0], [1, 1], True),
    a("max_pool1d.default", f(2, 3, 9), [3], [2], [1]),
    a("avg_pool2d.default", f(2, 3, 7, 8), [3, 3], [2, 2], [1, 1]),
    a("avg_pool2d.default", f(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], True, False),
    a("avg_pool2d.default", f(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], True, True, 5),
    a("avg_pool2d.default", f(2, 3, 7, 8), [20, 30], [15, 30], [2, 4], True),
    a("avg_pool2d.default", f(2, 3, 7, 8), [20, 3], [20, 2], [2, 1], True, False),
    a("max_pool2d.default", f(2, 3, 7, 8), [20, 5], [16, 3], [1, 1], [1, 2], True),
    a("avg_pool1d.default", f(2, 3, 9), [3]),
    a("adaptive_avg_pool2d.default", f(2, 3, 7, 5), [1, 1]),
    a("adaptive_avg_pool2d.default", f(2, 3, 7, 5), [3, 2]),
    a("upsample_nearest2d.vec", f(1, 2, 3, 4), [6, 8], None),
    a("upsample_nearest2d.vec", f(1, 2, 3, 4), None, [2.0, 2.0]),
    a("upsample_nearest2d.default", f(1, 2, 5, 4), [3, 7]),
    a("_upsample_nearest_exact2d.default", f(1, 2, 5, 4), [3, 7]),
    a("upsample_bilinear2d.vec", f(1, 2, 3, 4), [6, 7], False, None),
    a("upsample_bilinear2d.vec", f(1, 2, 4, 4), [1, 1], False, None),
    a("upsample_bilinear2d.vec", f(1, 2, 4, 5), [2, 1], False, None),
    a("upsample_bilinear2d.vec", f(1, 2, 3, 4), [6, 7], True, None),
    a("upsample_bilinear2d.default", f(1, 2, 6, 7), [3, 4], False),
]
