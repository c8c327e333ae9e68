"""Gradient clipping, by lists of tensors and one by one."""

from __future__ import annotations

import pytest
import torch
from lazy_case import lazy_mode
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm

CALLS = {
    "norm": lambda p, foreach: clip_grad_norm_(p, 1.5, foreach=foreach),
    "largest": lambda p, foreach: clip_grad_norm_(p, 0.5, float("inf"), foreach=foreach),
    "value": lambda p, foreach: clip_grad_value_(p, 0.25, foreach=foreach),
    "total": lambda p, foreach: get_total_norm([q.grad for q in p], foreach=foreach),
}


def clipped(device, call, foreach):
    parameters = [torch.nn.Parameter(torch.zeros(n, 3, device=device)) for n in (4, 1, 2)]
    for i, p in enumerate(parameters):
        p.grad = (torch.linspace(-2, 1, p.numel()) * (i + 1)).reshape(p.shape).to(device)
    total = CALLS[call](parameters, foreach)
    values = [p.grad.cpu() for p in parameters]
    return values if total is None else [total.cpu(), *values]


@pytest.mark.parametrize("foreach", [True, False, None])
@pytest.mark.parametrize("call", CALLS)
def test_clipping_is_that_of_the_cpu(call, foreach):
    torch.testing.assert_close(clipped("hpu", call, foreach), clipped("cpu", call, foreach))
    with lazy_mode():
        torch.testing.assert_close(clipped("hpu", call, foreach), clipped("cpu", call, foreach))
