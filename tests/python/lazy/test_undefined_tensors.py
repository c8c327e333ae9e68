"""Kernels give undefined results for undefined gradients, and so does lazy mode."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lazy_case import lazy_mode


class _Stop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_whose_result_gets_no_gradient(is_causal: bool) -> None:
    def gradients(device: str) -> tuple[torch.Tensor | None, list[float]]:
        x = torch.ones(1, 2, 3, 4, device=device, requires_grad=True)
        z = torch.ones(2, device=device, requires_grad=True)
        attended = F.scaled_dot_product_attention(x, x, x, is_causal=is_causal)
        (_Stop.apply(attended).sum() + (z * 3).sum()).backward()
        return x.grad, z.grad.tolist()

    with lazy_mode():
        assert gradients("hpu") == (None, [3.0, 3.0])
    assert gradients("cpu") == (None, [3.0, 3.0])
