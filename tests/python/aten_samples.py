"""The ATen calls that the compiler rewrites, each with sample arguments.

Those that calculate element by element, reduce or normalise are here; the modules that are imported
have the others.
"""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed
from aten_case import Case, T, a, b, f, h, i
from samples.composite import COMPOSITES
from samples.kernel import KERNELS
from samples.movement import MOVEMENTS
from samples.product import PRODUCTS
from samples.recurrent import RECURRENT
from samples.volume import BACKWARD as VOLUME_GRADIENTS
from samples.volume import FORWARD as VOLUMES

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf",
    "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "frac", "hardsigmoid", "hardswish",
    "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "log_sigmoid", "logical_not",
    "mish", "nan_to_num", "neg", "reciprocal", "relu", "relu6", "round", "rsqrt", "selu", "sgn",
    "sigmoid", "sign", "silu", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
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
    a("div.Tensor_mode", i(9), 2, rounding_mode="trunc"),
    a("div.Tensor_mode", T((9,), torch.int32), -3, rounding_mode="trunc"),
    a("div.Tensor_mode", T((9,), torch.int32), -1, rounding_mode="trunc"),
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
    a("pow.Tensor_Scalar", i(4), 11),
    a("pow.Tensor_Tensor", i(5, 4), i(4)),
    a("pow.Tensor_Tensor", T((9,), torch.int8), T((9,), torch.int8)),
    a("pow.Tensor_Tensor", T((9,), torch.uint8), T((9,), torch.uint8)),
    a("pow.Scalar", 2, i(9)),
    a("pow.Scalar", 3, i(9)),
    a("angle.default", f(9)),
    a("angle.default", i(9)),
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
]
CASES += PRODUCTS + MOVEMENTS + RECURRENT + VOLUMES + VOLUME_GRADIENTS + COMPOSITES + KERNELS
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
