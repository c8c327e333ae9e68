"""PyTorch's own samples of optimizers (optim_db) in three modes: after five steps, parameters and
state are those of the CPU."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from eager_case import place_on_cpu
from helpers import fresh_process
from lazy_case import lazy_mode, mark_step
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree as pytree

STEPS = 5
# How many samples are in the short run.
SHORT = {"eager": 6, "lazy": 6, "compiled": 3}


def cases(mode: str) -> list[tuple[str, type, dict[str, Any], str]]:
    return [
        (mode, info.optim_cls, sample.kwargs, sample.desc.replace(" ", "_"))
        for info in optim_db
        if not info.only_supports_sparse_grads
        for sample in info.optim_inputs_func("cpu")
    ]


def name(case: tuple[str, type, dict[str, Any], str]) -> str:
    mode, optimizer, _, described = case
    return f"{mode}-{optimizer.__name__}-{described}"


def placed(kwargs: dict[str, Any], device: str) -> dict[str, Any]:
    return {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}


def trained(case: tuple[str, type, dict[str, Any], str], device: str) -> list[torch.Tensor]:
    mode, optimizer_class, kwargs, _ = case
    generator = torch.Generator().manual_seed(0)

    def drawn(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, generator=generator).to(device)

    parameters = [torch.nn.Parameter(drawn(3, 5)), torch.nn.Parameter(drawn(5, 2))]
    optimizer = optimizer_class(parameters, **placed(kwargs, device))
    inputs = [drawn(4, 3) for _ in range(STEPS)]

    def closure(x: torch.Tensor) -> Callable[[], torch.Tensor]:
        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            value = ((x @ parameters[0]).tanh() @ parameters[1]).square().mean()
            value.backward()
            return value

        return loss

    step = optimizer.step
    if mode == "compiled" and device == "hpu":
        step = torch.compile(optimizer.step, backend="hpu_backend")
    for x in inputs:
        if optimizer_class is torch.optim.LBFGS:
            step(closure(x))
        else:
            closure(x)()
            step()
        if mode == "lazy" and device == "hpu":
            mark_step()
    # The history of LBFGS has differences of nearly equal gradients. The CPU's own are wrong by
    # 1e-3 (against f64), so only the parameters can be compared.
    known = {} if optimizer_class is torch.optim.LBFGS else optimizer.state_dict()["state"]
    state = pytree.tree_leaves(known)
    kept = [value for value in state if isinstance(value, torch.Tensor)]
    return [tensor.detach().cpu() for tensor in [*parameters, *kept]]


def atol(case: tuple[str, type, dict[str, Any], str]) -> float:
    """Muon moves by the learning rate times an orthogonal matrix, which it finds in bf16 by
    Newton-Schulz iterations whose polynomial has a slope of 3.4445."""
    _, optimizer_class, kwargs, _ = case
    if optimizer_class is torch.optim.Muon:
        return float(STEPS * kwargs.get("lr", 1e-3) * 3.4445 * 2**-8)
    return 1e-5


def check(case: tuple[str, type, dict[str, Any], str]) -> None:
    fresh_process()
    expected = trained(case, "cpu")
    if case[0] == "compiled":
        got = trained(case, "hpu")
    else:
        with place_on_cpu("none"):
            if case[0] == "lazy":
                with lazy_mode():
                    got = trained(case, "hpu")
            else:
                got = trained(case, "hpu")
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=atol(case))


@pytest.mark.parametrize(
    "case",
    [case for mode, n in SHORT.items() for case in random.Random(mode).sample(cases(mode), n)],
    ids=name,
)
def test_samples(case: tuple[str, type, dict[str, Any], str]) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for mode in SHORT for case in cases(mode)], ids=name)
def test_all_samples(case: tuple[str, type, dict[str, Any], str]) -> None:
    check(case)
