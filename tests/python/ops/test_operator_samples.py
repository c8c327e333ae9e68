"""PyTorch's own operator samples (op_db), compiled, with gradients, against CPU eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers import fresh_process
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


def operators() -> list[Any]:
    return [
        op
        for op in op_db
        if op.name not in ARBITRARY | AMBIGUOUS and op.supports_dtype(torch.float32, "cpu")
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


def with_gradients(
    function: Callable[..., Any], tensors: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
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


# Eager code on hpu refuses them, as it does on CUDA: the sections must be a tensor of the CPU.
REFUSED_ON_A_DEVICE = {"tensor_split"}


def is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_complex() and not tensor.is_nested


def compare(op: Any, sample: Any) -> bool:
    """Returns False if eager itself has no answer."""
    function, tensors = closed(op, sample)
    if op.name in REFUSED_ON_A_DEVICE and len(tensors) > 1:
        return False
    if not all(is_plain(tensor) for tensor in tensors):
        return False
    try:
        wanted = with_gradients(function, placed(tensors, "cpu"))
    except Exception:
        return False
    if not all(is_plain(result) for result in wanted[0]):
        return False
    fresh_process()
    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    got = with_gradients(compiled, placed(tensors, "hpu"))
    for ours, theirs in zip((*got[0], *got[1]), (*wanted[0], *wanted[1]), strict=True):
        if ours is None or theirs is None:
            # A gradient that is zero everywhere may be absent.
            present = ours if ours is not None else theirs
            assert present is None or not present.any()
            continue
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
    return True


def samples_of(op: Any) -> Iterator[Any]:
    torch.manual_seed(0)
    yield from op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)


@pytest.mark.parametrize("op", operators()[::16], ids=name_of)
def test_first_sample(op: Any) -> None:
    """One operator in sixteen."""
    if sum(compare(op, sample) for sample in itertools.islice(samples_of(op), 1)) == 0:
        pytest.skip("CPU eager has no dense answer for the sample")


@pytest.mark.slow
@pytest.mark.parametrize("op", operators(), ids=name_of)
def test_samples(op: Any) -> None:
    if sum(compare(op, sample) for sample in itertools.islice(samples_of(op), 12)) == 0:
        pytest.skip("CPU eager has no dense answer for the samples")
