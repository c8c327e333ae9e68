"""PyTorch's own operator samples (op_db) as functions of their tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

# The results are arbitrary: memory without a value, or drawn numbers.
ARBITRARY = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
    "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
    # The function of its samples freezes the generator in a way that Dynamo refuses to trace.
    "nn.functional.multi_head_attention_forward",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "nn.functional.rrelu", "nn.functional.scaled_dot_product_attention", "pca_lowrank",
    "svd_lowrank", "torch.ops.aten._efficient_attention_forward",
    "torch.ops.aten._flash_attention_forward",
}  # fmt: skip
# The factors of a decomposition are unique only up to signs and order.
AMBIGUOUS = {
    "geqrf", "linalg.eig", "linalg.eigh", "linalg.householder_product", "linalg.ldl_factor",
    "linalg.ldl_factor_ex", "linalg.svd", "lobpcg", "ormqr", "svd",
}  # fmt: skip


def operators(dtype: torch.dtype = torch.float32) -> list[Any]:
    return [
        op
        for op in op_db
        if op.name not in ARBITRARY | AMBIGUOUS and op.supports_dtype(dtype, "cpu")
    ]


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def closed(op: Any, sample: Any) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """The sample's call as a function of its tensors."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        input, args, kwargs = pytree.tree_unflatten(given, spec)
        results = pytree.tree_leaves(op.op(input, *args, **kwargs))
        return [result for result in results if isinstance(result, torch.Tensor)]

    return function, [leaves[place] for place in places]


def placed(tensors: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    return [
        tensor.detach().clone().to(device).requires_grad_(tensor.requires_grad)
        for tensor in tensors
    ]


def is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_complex() and not tensor.is_nested


def samples_of(op: Any, dtype: torch.dtype = torch.float32) -> Iterator[Any]:
    """Samples that ask for gradients where the operator has some."""
    torch.manual_seed(0)
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    yield from op.sample_inputs("cpu", dtype, requires_grad=differentiable)


def with_gradients(
    function: Callable[..., Any], tensors: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """The results of a function that returns a list of tensors, and the gradients of a weighted
    sum of them."""
    results = function(*tensors)
    losses = []
    for result in results:
        if result.requires_grad and result.is_floating_point() and result.numel() > 0:
            weights = torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)
            losses.append((result * weights.to(result.device, result.dtype)).sum())
    asked = [tensor for tensor in tensors if tensor.requires_grad]
    if not losses or not asked:
        return results, []
    return results, list(torch.autograd.grad(sum(losses), asked, allow_unused=True))
