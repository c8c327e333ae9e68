"""The operators that autocast casts on hpu, and to which types. The lists are the bridge's.

A name is that of an aten operator and stands for all of its overloads; with an overload, as in
"pow.Scalar", it stands for that one. In-place forms and forms with out= are never cast.
"""

from __future__ import annotations

import logging
import os

from .. import native
from ..internal import bridge_config
from ..internal.flag_table import AUTOCAST_LISTS

LOWER_PRECISION = (
    *("addbmm", "addmm", "baddbmm", "batch_norm", "bmm", "conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "dot", "dropout"),
    *("feature_dropout", "group_norm", "instance_norm", "layer_norm", "leaky_relu", "linear"),
    *("log_softmax", "matmul", "mean", "mm", "mul", "mv", "scaled_dot_product_attention"),
    *("softmax",),
)
FP32 = (
    *("acos", "addcdiv", "asin", "atan2", "bilinear", "binary_cross_entropy"),
    *("binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss"),
    *("cosine_similarity", "cross_entropy_loss", "dist", "div", "divide", "embedding"),
    *("embedding_bag", "erfinv", "exp", "expm1", "hinge_embedding_loss", "huber_loss", "kl_div"),
    *("l1_loss", "log", "log10", "log1p", "log2", "logsumexp", "margin_ranking_loss", "mse_loss"),
    *("multi_margin_loss", "multilabel_margin_loss", "nll_loss", "pdist", "poisson_nll_loss"),
    *("pow", "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss"),
    *("softplus", "tan", "topk", "triplet_margin_loss", "true_divide"),
)
# The bridge's list has iadd and truediv besides, which are no operators.
PROMOTE = ("add", "addcdiv", "addcmul", "cat", "div", "exp", "mul", "pow", "stack", "sub")
# Only the first argument of these is cast where they are in lower precision: statistics and weights
# keep their type.
FIRST_ARGUMENT = frozenset({"batch_norm", "group_norm", "instance_norm", "layer_norm"})
# The bridge lists none of these, and PyTorch refuses arguments of mixed types. Where the types
# differ, the widest one is taken. Everything else is as without a rule, so that a program which
# runs with the bridge's lists has the same types.
ALIGNED = (
    *("_convolution", "addmv", "chain_matmul", "conv_tbc", "convolution", "cross", "grid_sampler"),
    *("index_put", "linalg_multi_dot", "linalg_vecdot", "prelu", "scatter_add", "tensordot"),
    *("vdot",),
)
# The bridge lists none of these either, and PyTorch has them in f32 and wider types alone, also
# where their parts are operators in lower precision.
FP32_ALONE = ("istft", "nuclear_norm", "stft")

_log = logging.getLogger("habana_frameworks.torch")


def _listed(flag: str, built_in: tuple[str, ...]) -> tuple[str, ...]:
    """The names in the file that the flag names, one a line; without one, the built-in list."""
    path = str(bridge_config.get(flag))
    if not path:
        return built_in
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        _log.warning(
            "%s: the list of operators cannot be read (%s); autocast uses the built-in list",
            flag,
            error,
        )
        return built_in
    return tuple(line for line in lines if line)


def register() -> None:
    """Registers the casts with PyTorch. Call it once. An operator in several lists follows the
    first of lower precision, fp32 and promote."""
    built_in = (LOWER_PRECISION, FP32)
    lower, fp32 = lists = [_listed(*row) for row in zip(AUTOCAST_LISTS, built_in, strict=True)]
    rules = [
        *((n, _lower_way(n)) for n in lower),
        *((n, "fp32") for n in (*fp32, *FP32_ALONE)),
        *((n, "promote") for n in PROMOTE),
        *((n, "aligned") for n in ALIGNED),
    ]
    unknown = set(native.torch_module().register_autocast(rules))
    for flag, names in zip(AUTOCAST_LISTS, lists, strict=True):
        missing = [n for n in names if n in unknown]
        if missing and names not in built_in:
            _log.warning(
                "%s: autocast ignores names that no out-of-place operator of PyTorch has: %s",
                flag,
                ", ".join(missing),
            )


def _lower_way(name: str) -> str:
    first_alone = name.partition(".")[0] in FIRST_ARGUMENT
    return "lower_precision_of_first" if first_alone else "lower_precision"
