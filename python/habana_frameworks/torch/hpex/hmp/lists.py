"""The lists of ops: built-in ones, and those that a program's files name."""

from __future__ import annotations

import re

from ...internal.regular_file import read_regular_file

BF16 = ("addmm", "bmm", "conv1d", "conv2d", "conv3d", "dot", "mm", "mv")
FP32 = ("batch_norm", "cross_entropy", "log_softmax", "softmax", "nll_loss", "topk")
# Ops of several tensors which take the widest type among them, unless another list has them.
WIDEST = (
    *("add", "addcdiv", "addcmul", "atan2", "cat", "concat", "div", "eq", "fmax", "fmin", "ge"),
    *("gt", "hypot", "le", "lerp", "lt", "maximum", "minimum", "mul", "ne", "pow", "rsub"),
    *("stack", "sub", "where"),
)
# With O2 these are in bf16 and everything else is in f32.
O2_BF16 = (*BF16, "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear")

# Ops that calculate and that no list above has: each runs in the type of its first input.
OTHERS = (
    # products
    *("addbmm", "addmv", "addr", "baddbmm", "bilinear", "chain_matmul", "conv_transpose1d"),
    *("conv_transpose2d", "conv_transpose3d", "cross", "einsum", "inner", "linear", "matmul"),
    *("outer", "scaled_dot_product_attention", "tensordot", "vdot"),
    # layers
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d"),
    *("avg_pool2d", "avg_pool3d", "dropout", "dropout1d", "dropout2d", "dropout3d", "embedding"),
    *("embedding_bag", "feature_dropout", "grid_sample", "group_norm", "gru", "instance_norm"),
    *("interpolate", "layer_norm", "lstm", "max_pool1d", "max_pool2d", "max_pool3d", "pad"),
    *("prelu", "rms_norm", "rnn_relu", "rnn_tanh"),
    # losses
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss"),
    *("ctc_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss"),
    *("margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss"),
    *("poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
    # activations and functions of one tensor
    *("abs", "acos", "asin", "atan", "celu", "cos", "cosh", "elu", "erf", "erfinv", "exp", "expm1"),
    *("gelu", "glu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log", "log10", "log1p"),
    *("log2", "logsigmoid", "mish", "neg", "reciprocal", "relu", "relu6", "rsqrt", "selu"),
    *("sigmoid", "silu", "sin", "sinh", "softmin", "softplus", "softsign", "sqrt", "square", "tan"),
    *("tanh",),
    # reductions and distances
    *("amax", "amin", "cdist", "cosine_similarity", "cumsum", "dist", "logsumexp", "max", "mean"),
    *("min", "norm", "pairwise_distance", "pdist", "prod", "renorm", "sort", "std", "sum", "var"),
)
# Ops whose in-place forms write tensors of one type into another one.
WRITES = (
    *("index_add", "index_copy", "index_put", "index_reduce", "masked_fill", "masked_scatter"),
    *("scatter", "scatter_add", "scatter_reduce"),
)
# The input of these is cast alone: statistics and weights keep their types, because running
# statistics are written.
INPUT_ALONE = frozenset({"batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"})
# Names that lists have for Python's operators.
OPERATORS = {
    "truediv": "div",
    **{f"i{name}": f"{name}_" for name in ("add", "sub", "mul", "div", "pow")},
    "itruediv": "div_",
}


def read(argument: str, path: str) -> tuple[str, ...]:
    """The names in a text file, which may be separated by anything that is not part of a name.
    ValueError names the argument of `convert` and the file."""
    try:
        text = read_regular_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"hmp.convert: {argument}={path!r} cannot be read ({error}); give the path of a text "
            "file with a name of an op on each line"
        ) from None
    return tuple(re.findall(r"[A-Za-z_]\w*", text))
