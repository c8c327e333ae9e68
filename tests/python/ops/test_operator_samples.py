"""PyTorch's own operator samples (op_db), compiled, with gradients, against CPU eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import fresh_process
from operator_samples import closed, is_plain, name_of, operators, placed, samples_of


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
