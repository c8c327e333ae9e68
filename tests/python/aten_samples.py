"""The ATen calls that the compiler rewrites, each with sample arguments.

f, i, b and h are f32, i64, bool and bf16 tensors of the given sizes.
"""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed
from aten_case import Case, T
from composite_samples import COMPOSITES
from recurrent_samples import RECURRENT
from volume_samples import BACKWARD as VOLUME_GRADIENTS
from volume_samples import FORWARD as VOLUMES

from habana_frameworks.torch.dynamo.capture.decompositions.int4_weights import block_columns


def f(*sizes: int, strides: tuple[int, ...] | None = None) -> T:
    return T(sizes, strides=strides)


def i(*sizes: int) -> T:
    return T(sizes, torch.int64)


def b(*sizes: int) -> T:
    return T(sizes, torch.bool)


def h(*sizes: int) -> T:
    return T(sizes, torch.bfloat16)


def a(target: str, *args: object, **kwargs: object) -> Case:
    return Case(f"aten.{target}", *args, **kwargs)


UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc",
    "exp", "exp2", "expm1", "floor", "frac", "hardsigmoid", "hardswish", "isfinite", "isinf",
    "isnan", "log", "log10", "log1p", "log2", "log_sigmoid", "logical_not", "mish", "nan_to_num",
    "neg", "reciprocal", "relu", "relu6", "round", "rsqrt", "selu", "sgn", "sigmoid", "sign",
    "silu", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
BINARY = ["eq", "ge", "gt", "le", "lt", "ne", "mul", "div", "fmod", "remainder"]

CASES = [a(f"{name}.default", f(3, 5)) for name in UNARY if hasattr(torch.ops.aten, name)]
CASES += [a(f"{name}.Tensor", f(3, 5), f(5)) for name in BINARY]
CASES += [a(f"{name}.Scalar", f(3, 5), 0.75) for name in BINARY]
CASES += [a(f"{name}.Tensor", i(3, 5), i(5)) for name in ("eq", "mul", "ne", "lt")]
CASES += [a(f"{name}.Scalar", i(3, 5), 0.5) for name in ("eq", "lt", "mul")]
CASES += [a(f"{name}.Tensor", h(3, 5), f(1)) for name in ("mul", "lt")]
CASES += [a(f"{name}.Tensor", h(3, 5), f()) for name in ("mul", "lt")]
CASES += [
    a("abs.default", i(4)),
    a("neg.default", i(4)),
    a("exp.default", i(4)),
    a("sqrt.default", h(4, 4)),
    a("add.Tensor", f(3, 5), f(3, 1)),
    a("add.Tensor", f(3, 5), f(5), alpha=2),
    a("add.Tensor", f(3), 2.5),
    a("add.Tensor", i(3), f(3)),
    a("add.Tensor", b(3), i(3)),
    a("add.Tensor", b(3), b(3)),
    a("add.Scalar", i(3), 1.5),
    a("sub.Tensor", f(2, 3), f(3), alpha=0.5),
    a("sub.Tensor", i(4), i(4)),
    a("rsub.Scalar", f(4), 1),
    a("rsub.Scalar", i(4), 1, 2),
    a("mul.Tensor", b(4), b(4)),
    a("div.Tensor", i(4), 2),
    a("div.Tensor_mode", f(4), 0.75, rounding_mode="floor"),
    a("div.Tensor_mode", f(4), 0.75, rounding_mode="trunc"),
    a("floor_divide.default", f(4), T((4,))),
    *(
        a(name, f(8), infinity)
        for name in ("floor_divide.Scalar", "remainder.Scalar", "fmod.Scalar")
        for infinity in (float("inf"), float("-inf"))
    ),
    a("maximum.default", f(3, 4), f(4)),
    a("minimum.default", f(3, 4), f(4)),
    a("pow.Tensor_Scalar", f(4), 2),
    a("pow.Tensor_Scalar", f(4), 3),
    a("pow.Tensor_Scalar", f(4), 0.5),
    a("pow.Tensor_Scalar", f(4), -0.5),
    a("pow.Tensor_Scalar", f(4), -1),
    a("pow.Tensor_Scalar", f(4), 1.5),
    a("pow.Tensor_Scalar", i(4), 2),
    a("pow.Tensor_Scalar", f(4), 0),
    a("pow.Tensor_Tensor", f(4), f(4)),
    a("pow.Scalar", 2.0, f(4)),
    a("atan2.default", f(4), f(4)),
    a("hypot.default", f(3, 4), f(4)),
    a("xlogy.Tensor", f(3, 4), f(4)),
    a("xlogy.Scalar_Self", 0.0, f(4)),
    a("xlogy.Scalar_Other", i(4), 0.5),
    a("logaddexp.default", f(4), f(4)),
    a("addcmul.default", f(4), f(4), f(4), value=0.5),
    a("addcdiv.default", f(4), f(4), f(4)),
    a("lerp.Scalar", f(4), f(4), 0.25),
    a("lerp.Tensor", f(4), f(4), f(4)),
    a("clamp.default", f(9), -0.5, 0.5),
    a("clamp.default", f(9), None, 0.5),
    a("clamp.Tensor", f(9), f(9)),
    a("clamp_min.default", f(9), 0.0),
    a("clamp_max.default", f(9), 0.0),
    a("hardtanh.default", f(9)),
    a("gelu.default", f(9)),
    a("gelu.default", f(9), approximate="tanh"),
    a("elu.default", f(9)),
    a("elu.default", f(9), 0.5, 2.0),
    a("celu.default", f(9), 2.0),
    a("leaky_relu.default", f(9)),
    a("leaky_relu.default", f(9), 0.2),
    a("softplus.default", f(9)),
    a("softplus.default", f(9), 2.0, 1.0),
    a("threshold.default", f(9), 0.5, 3.0),
    a("glu.default", f(3, 8)),
    a("prelu.default", f(2, 3, 4), f(3)),
    a("prelu.default", f(2, 3), f(1)),
    a("where.self", b(3, 4), f(3, 4), f(4)),
    a("where.ScalarOther", b(3, 4), f(3, 4), 1.5),
    a("masked_fill.Scalar", f(3, 4), b(3, 4), float("-inf")),
    a("masked_fill.Tensor", f(3, 4), b(4), f()),
    a("logical_and.default", b(4), b(4)),
    a("logical_or.default", i(4), b(4)),
    a("logical_xor.default", f(4), f(4)),
    a("bitwise_and.Tensor", b(4), b(4)),
    a("bitwise_or.Tensor", i(4), i(4)),
    a("bitwise_xor.Scalar", i(4), 5),
    a("bitwise_not.default", i(4)),
    a("bitwise_not.default", b(4)),
    # reductions
    a("sum.default", f(3, 4)),
    a("sum.default", b(3, 4)),
    a("sum.dim_IntList", f(3, 4, 5), [0, -1]),
    a("sum.dim_IntList", f(3, 4), [1], True),
    a("sum.dim_IntList", h(3, 4), [1], dtype=torch.float32),
    a("sum.dim_IntList", i(3, 4), [0]),
    a("mean.default", f(3, 4)),
    a("mean.dim", f(3, 4), [-1], True),
    a("amax.default", f(3, 4), [1]),
    a("amin.default", f(3, 4)),
    a("max.default", f(3, 4)),
    a("min.default", i(3, 4)),
    a("max.dim", f(3, 7), 1),
    a("max.dim", f(), 0),
    a("min.dim", f(3, 7), 0, True),
    a("min.dim", f(), -1, True),
    a("aminmax.default", f(3, 4)),
    a("aminmax.default", f(3, 4), dim=1, keepdim=True),
    a("aminmax.default", f(), dim=0),
    a("argmax.default", f(3, 4)),
    a("argmax.default", f(3, 4), 1),
    a("argmax.default", f(), 0),
    a("argmin.default", f(3, 4), 0, True),
    a("prod.default", f(3, 2)),
    a("prod.dim_int", f(3, 4), 1),
    a("any.default", b(5)),
    a("any.dim", b(3, 5), 1),
    a("all.dim", f(3, 5), 1, True),
    a("all.default", b(2)),
    a("var.correction", f(3, 5), [1]),
    a("var.correction", f(3, 5), [1], correction=0, keepdim=True),
    a("var.dim", f(3, 5), [1], False),
    a("var.default", f(3, 5)),
    a("std.correction", f(3, 5), [0]),
    a("std.default", f(3, 5), False),
    a("var_mean.correction", f(3, 5), [1], correction=0),
    a("std_mean.correction", f(3, 5), None),
    a("linalg_vector_norm.default", f(3, 5)),
    a("linalg_vector_norm.default", f(3, 5), 1, [1]),
    a("linalg_vector_norm.default", f(3, 5), 3.0, [0]),
    a("linalg_vector_norm.default", f(3, 5), float("inf"), [1], True),
    a("norm.Scalar", f(3, 5)),
    a("logsumexp.default", f(3, 5), [1]),
    a("logsumexp.default", f(3, 5), [0, 1], True),
    a("cumsum.default", f(3, 5), 1),
    a("cumsum.default", b(3, 5), 0),
    a("cumsum.default", f(), 0),
    a("cumprod.default", f(3, 5), -1),
    *(
        a(f"{name}.default", *args)
        for name in ("cummax", "cummin")
        for args in (
            (f(7), 0),
            (f(3, 5), -1),
            (f(2, 3, 4, 2, 3, 2), 3),
            (f(5, 3, strides=(1, 5)), 1),
            (h(4, 6), 0),
            (T((4, 6), torch.float16), 1),
            (T((4, 6), torch.int32), 1),
            (T((4, 6), torch.uint8), 0),
            (i(2, 3, 4), 1),
            (b(3, 5), 1),
            (f(), -1),
            (f(3, 0), 0),
        )
    ),
    # normalisation
    a("softmax.int", f(3, 5), -1),
    a("_softmax.default", f(3, 5), 0, False),
    a("softmax.int", h(3, 5), -1, torch.float32),
    a("log_softmax.int", f(3, 5), 1),
    a("_log_softmax.default", f(2, 3, 5), 1, False),
    a("layer_norm.default", f(3, 5), [5]),
    a("layer_norm.default", f(3, 4, 5), [4, 5], f(4, 5), f(4, 5), 1e-6),
    a("layer_norm.default", f(3, 5), [5], None, f(5)),
    a("layer_norm.default", h(3, 8), [8], h(8), h(8)),
    a("rms_norm.default", f(3, 5), [5], f(5), 1e-6),
    a("rms_norm.default", f(3, 5), [5]),
    a("group_norm.default", f(2, 6, 3), 3, f(6), f(6)),
    a("group_norm.default", f(2, 6, 3, 2), 2),
    a("batch_norm.default", f(2, 3, 4, 4), f(3), f(3), f(3), T((3,)), False, 0.1, 100.0, True),
    a("batch_norm.default", f(2, 3), None, None, f(3), f(3), False, 0.1, 100.0, True),
    a("instance_norm.default", f(2, 3, 8), f(3), f(3), None, None, True, 0.1, 1e-5, True),
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
    # views and copies
    a("view.default", f(3, 4), [2, 6]),
    a("reshape.default", f(3, 4, strides=(1, 3)), [12]),
    a("flatten.using_ints", f(2, 3, 4), 1),
    a("unflatten.int", f(2, 12), 1, [3, 4]),
    a("squeeze.default", f(1, 3, 1)),
    a("squeeze.dim", f(1, 3, 1), 0),
    a("unsqueeze.default", f(3), -1),
    a("permute.default", f(2, 3, 4), [2, 0, 1]),
    a("transpose.int", f(2, 3, 4), 0, -1),
    a("t.default", f(2, 3)),
    a("t.default", f(3)),
    a("numpy_T.default", f(2, 3, 4)),
    a("mT.default", f(2, 3, 4)),
    a("movedim.int", f(2, 3, 4), 0, 2),
    a("expand.default", f(3, 1), [2, 3, 4]),
    a("expand.default", f(3, 1), [-1, 4]),
    a("slice.Tensor", f(5, 6), 1, 1, -1, 2),
    a("slice.Tensor", f(5, 6), 0, -3, 9223372036854775807),
    a("slice.Tensor", f(5), 0, 4, 2),
    a("select.int", f(3, 4), 1, -1),
    a("narrow.default", f(5, 2), 0, 1, 3),
    a("split.Tensor", f(5, 2), 2),
    a("split_with_sizes.default", f(5, 2), [1, 4]),
    a("chunk.default", f(2, 7), 3, 1),
    a("unbind.int", f(3, 2)),
    a("clone.default", f(2, 3)),
    a("detach.default", f(2)),
    a("contiguous.default", f(2, 3, strides=(1, 2))),
    a("_to_copy.default", f(9), dtype=torch.bfloat16),
    a("_to_copy.default", f(9), dtype=torch.int32),
    a("_to_copy.default", f(9), dtype=torch.bool),
    a("to.dtype", i(4), torch.float32),
    a("dropout.default", f(4), 0.5, False),
    a("lift_fresh_copy.default", f(2)),
    # movement
    a("cat.default", [f(2, 3), f(4, 3)]),
    a("cat.default", [f(2, 3), i(2, 1)], -1),
    a("stack.default", [f(2, 3), f(2, 3)], 1),
    a("constant_pad_nd.default", f(2, 3), [1, 2, 0, 1], 0.5),
    a("constant_pad_nd.default", f(4, 5), [-1, 2]),
    a("pad.default", f(2, 3), [1, 1]),
    a("repeat.default", f(2, 3), [2, 1, 2]),
    a("repeat_interleave.self_int", f(2, 3), 2, 1),
    a("repeat_interleave.self_int", f(2, 3), 2),
    a("roll.default", f(4, 5), [1, -2], [0, 1]),
    a("roll.default", f(4, 5), [3]),
    a("flip.default", f(3, 4), [0, 1]),
    a("tril.default", f(4, 5)),
    a("tril.default", b(4, 4), -1),
    a("triu.default", f(2, 4, 5), 1),
    a("slice_scatter.default", f(5, 4), f(2, 4), 0, 1, 3),
    a("select_scatter.default", f(3, 4), f(4), 0, 1),
    a("pixel_shuffle.default", f(1, 8, 2, 3), 2),
    # indexing
    a("embedding.default", f(4, 3), i(2, 5)),
    a("index_select.default", f(3, 4), 1, i(5)),
    a("index_copy.default", f(3, 4), 1, i(1), f(3, 1)),
    a("index_copy.default", f(3, 4), 0, i(1), f(1, 4)),
    a("index_copy.default", f(6, 4), 0, i(3), f(3, 4)),
    a("gather.default", f(3, 4), 1, i(3, 2)),
    a("index_put.default", f(6, 4), [i(3)], f(3, 4)),
    a("index_put.default", f(3, 4), [None, i(1)], f(1)),
    a("index_put.default", f(3, 4, 2), [i(3, 1), i(3)], f(3, 3, 2)),
    a("index_put.default", f(3, 4, 5), [i(3), None, i(3)], f(3, 4)),
    a("index_put.default", f(3, 4, 5, 2), [i(3, 1), None, i(4)], f(3, 4, 4, 2)),
    a("index_put.default", f(3, 4, 2), [b(3, 4)], f(1)),
    a("index_put.default", f(3, 4, 2), [None, b(4, 2)], f()),
    a("index.Tensor", f(3, 4), [i(5)]),
    a("index.Tensor", f(3, 4), [None, i(5)]),
    a("index.Tensor", f(3, 4, 2), [i(5), i(5)]),
    a("index.Tensor", f(3, 4, 2), [None, i(5, 1), i(3)]),
    a("index.Tensor", f(3, 4, 5, 2), [i(4), None, i(4)]),
    a("index.Tensor", f(2, 3, 4, 5), [None, i(2, 1), None, i(3)]),
    a("topk.default", f(3, 7), 3),
    a("topk.default", f(3, 7), 2, 0, False),
    a("sort.default", f(3, 7)),
    a("sort.stable", f(3, 7), stable=True, descending=True),
    a("scatter.src", f(3, 4), 0, i(1, 4), f(1, 4)),
    a("scatter.value", f(3, 4), 1, i(3, 1), 2.0),
    # Six dimensions, which are merged around the dimension of the index.
    a("gather.default", f(2, 1, 3, 4, 2, 2), 3, i(2, 1, 3, 2, 2, 2)),
    a("scatter.src", f(2, 1, 3, 4, 2, 2), 3, i(2, 1, 3, 1, 2, 2), f(2, 1, 3, 1, 2, 2)),
    a("scatter_add.default", f(2, 1, 3, 4, 2, 2), 3, i(2, 1, 3, 3, 2, 2), f(2, 1, 3, 3, 2, 2)),
    # sources
    a("full.default", [2, 3], 1.5),
    a("zeros.default", [2], dtype=torch.int64),
    a("ones_like.default", f(3)),
    a("zeros_like.default", i(3)),
    a("full_like.default", f(3), 7),
    a("arange.default", 5),
    a("arange.start_step", 1, 9, 2),
    a("arange.start", 2.0, 5.0),
    a("scalar_tensor.default", 2.0),
    a("new_zeros.default", f(2), [3]),
    a("linspace.default", 0.0, 1.0, 5),
    a("new_full.default", f(2), [3], 4),
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
    a("upsample_bilinear2d.vec", f(1, 2, 3, 4), [6, 7], True, None),
    a("upsample_bilinear2d.default", f(1, 2, 6, 7), [3, 4], False),
]
CASES += RECURRENT + VOLUMES + VOLUME_GRADIENTS + COMPOSITES
U8, I8 = (0, 255, torch.uint8), (-128, 127, torch.int8)
CASES += [
    Case(f"quantized_decomposed.{name}", *args)
    for name, *args in (
        ("quantize_per_tensor.default", f(3, 5), 0.1, 7, *U8),
        ("quantize_per_tensor.default", h(3, 5), 0.013, -7, *I8),
        ("dequantize_per_tensor.default", T((3, 5), torch.uint8), 0.1, 7, *U8),
        ("dequantize_per_tensor.tensor", T((3, 5), torch.uint8), f(), i(1), *U8),
        ("dequantize_per_channel.default", T((3, 5), torch.int8), f(3), i(3), 0, *I8),
        ("dequantize_per_channel.default", T((3, 5), torch.int8), f(5), None, 1, *I8),
    )
]
