"""Training steps with no kernel on the CPU: modules that write to views which lie between each
other, norms whose input needs no gradient, and optimizers with fused=True."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from eager_case import place_on_cpu
from lazy_case import Counts, lazy_mode
from torch import nn

Module = Callable[[], nn.Module]

MODULES: dict[str, tuple[Module, tuple[int, ...]]] = {
    "GRU": (lambda: nn.GRU(4, 3), (5, 2, 4)),
    "GRUCell": (lambda: nn.GRUCell(4, 3), (2, 4)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), (2, 4)),
    "circular pad": (lambda: nn.CircularPad2d(1), (1, 2, 4, 4)),
    "circular convolution": (
        lambda: nn.Conv1d(2, 3, 3, padding=2, padding_mode="circular"), (2, 2, 6)
    ),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), (5, 4)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(3), (2, 3, 2, 4, 4)),
    "InstanceNorm2d": (
        lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (2, 3, 4, 4)
    ),
    "CELU": (lambda: nn.Sequential(nn.Linear(4, 4), nn.CELU(0.7)), (3, 4)),
}  # fmt: skip


def gradients(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    result = model(x)
    result = result[0] if isinstance(result, tuple) else result
    weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(x.device)
    (result * weights).sum().backward()
    wanted = [x, *model.parameters()] if x.requires_grad else list(model.parameters())
    return [result.detach(), *(t.grad for t in wanted if t.grad is not None)]


@pytest.mark.parametrize("needs_gradient", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name, needs_gradient):
    torch.manual_seed(0)
    make, sizes = MODULES[name]
    model, x = make(), torch.randn(sizes)
    if not list(model.parameters()) and not needs_gradient:
        return
    ours = copy.deepcopy(model).to("hpu")
    expected = gradients(model, x.requires_grad_(needs_gradient))
    with place_on_cpu("none"):
        given = x.detach().to("hpu").requires_grad_(needs_gradient)
        found = gradients(ours, given)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)


OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD with momentum": (
        "SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}
    ),
    "SGD by Nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    "Adam": ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    "Adam with the largest": ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    "AdamW": ("AdamW", {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-4}),
    "AdamW, a tensor's rate": ("AdamW", {"lr": torch.tensor(0.1), "weight_decay": 0.1}),
    "Adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1}),
}  # fmt: skip

WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "eager": nullcontext,
    "recipes": lambda: place_on_cpu("none"),
    "lazy": lazy_mode,
}


def train(name: str, fused: bool, device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(sizes, generator=generator) for sizes in ((3, 4), (5,))]
    parameters = [nn.Parameter(x.to(dtype).to(device)) for x in start]
    kind, options = OPTIMIZERS[name]
    if isinstance(options["lr"], torch.Tensor):
        options = options | {"lr": options["lr"].to(device)}
    optimizer = getattr(torch.optim, kind)(parameters, fused=fused, **options)
    for step in range(3):
        for i, parameter in enumerate(parameters):
            grad = torch.randn(start[i].shape, generator=generator) * (step + 1)
            parameter.grad = grad.to(dtype).to(device)
        optimizer.step()
    return [p.detach().float().cpu() for p in parameters]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_optimizers(name, way):
    expected = train(name, fused=False, device="cpu", dtype=torch.float32)
    counts = Counts()
    with WAYS[way]():
        found = train(name, fused=True, device="hpu", dtype=torch.float32)
    assert counts.runs_by_call == 0
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["recipes", "lazy"])
@pytest.mark.parametrize("name", ["SGD with momentum", "Adam", "Adagrad"])
def test_fused_optimizers_of_bf16(name, way):
    """Steps are calculated in f32 and rounded once, as by PyTorch's CPU kernels."""
    expected = train(name, fused=True, device="cpu", dtype=torch.bfloat16)
    with WAYS[way]():
        found = train(name, fused=True, device="hpu", dtype=torch.bfloat16)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("way", WAYS)
def test_a_step_with_an_infinite_gradient_is_left_out(way):
    with WAYS[way]():
        parameter = nn.Parameter(torch.ones(3, device="hpu"))
        optimizer = torch.optim.SGD([parameter], lr=0.1, fused=True)
        for infinite, wanted in ((1.0, 1.0), (0.0, 0.8)):
            parameter.grad = torch.full((3,), 8.0, device="hpu")
            optimizer.grad_scale = torch.tensor(4.0, device="hpu")
            optimizer.found_inf = torch.tensor(infinite, device="hpu")
            optimizer.step()
            assert parameter.tolist() == pytest.approx([wanted] * 3)
