"""Forward and backward of one layer may take different ways: what one saves, the other takes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from eager_case import place_on_cpu

Layer = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

# Each takes x[8, 6, 10, 10] and a weight and a bias of 6.
LAYERS: dict[str, Layer] = {
    "layer norm": lambda x, w, b: F.layer_norm(x, (10, 10)),
    "layer norm with weights": lambda x, w, b: F.layer_norm(x.permute(0, 2, 3, 1), (6,), w, b),
    "batch norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "batch norm with statistics": lambda x, w, b: F.batch_norm(
        x, torch.zeros_like(w), torch.ones_like(w), w, b, True
    ),
    "batch norm in inference": lambda x, w, b: F.batch_norm(
        x, torch.zeros_like(w), torch.ones_like(w), w, b, False
    ),
    "group norm": lambda x, w, b: F.group_norm(x, 3, w, b),
    "max pool": lambda x, w, b: F.max_pool2d(x, 2),
    "softmax": lambda x, w, b: F.log_softmax(x, 1),
    "convolution": lambda x, w, b: F.conv2d(
        x, w[:, None, None, None].expand(6, 6, 3, 3).contiguous(), b, padding=1
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 6, 10, 10, generator=generator).to(dtype)
    w = (torch.rand(6, generator=generator) + 0.5).to(dtype)
    b = torch.randn(6, generator=generator).to(dtype)
    exact = [t.double().requires_grad_() for t in (x, w, b)]
    result = LAYERS[name](*exact)
    tangent = torch.randn(result.shape, generator=generator).to(dtype)
    result.backward(tangent.double())
    on_cpu = [t.clone().requires_grad_() for t in (x, w, b)]
    # PyTorch spreads sums in f16 over threads, and autograd's thread of hpu has one.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        host = LAYERS[name](*on_cpu)
        host.backward(tangent)
    finally:
        torch.set_num_threads(threads)
    for forward, backward in itertools.product(("", "none"), repeat=2):
        given = [t.to("hpu").requires_grad_() for t in (x, w, b)]
        with place_on_cpu(forward):
            ours = LAYERS[name](*given)
        with place_on_cpu(backward):
            ours.backward(tangent.to("hpu"))
        # The CPU's own gradients of bf16 are off by up to 7e-2 of the largest one.
        narrow = 3e-2 if backward == "none" else 1e-1
        bound = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: narrow}[dtype]
        pairs = [(ours.detach(), result.detach(), host.detach())]
        pairs += [(g.grad, e.grad, h.grad) for g, e, h in zip(given, exact, on_cpu, strict=True)]
        for got, wanted, cpus in pairs:
            assert (got is None) == (wanted is None)
            if got is not None and wanted is not None:
                # Where the CPU's kernels computed everything, the numbers are theirs.
                if forward == backward == "" and torch.equal(got.cpu(), cpus):
                    continue
                error = (got.cpu().double() - wanted).abs().max()
                assert error <= bound * wanted.abs().max(), (forward, backward)
