"""PyTorch's own samples of modules (module_db), with gradients, in three modes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from operator_modes import Function, outcome_of_functions
from torch import nn
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

# How many modules of each type are in the short run.
SHORT = {"eager": 4, "lazy": 4, "compiled": 2}
TYPES = ("float32", "bfloat16", "float16")
SAMPLES = 3
# The results are drawn.
ARBITRARY = {"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"}
# The reference of narrow types changes their targets a little, and no target may be above 1.
ONLY_F32 = {"nn.BCELoss"}
# A sample of them needs the host, forward or backward, where recipes are alone.
REFUSED = {"nn.CELU", "nn.Softmax", "nn.LogSoftmax", "nn.Softmin"}
# The CPU has these losses in f32 alone.
REFUSED_LOSSES = {"nn.MultiLabelMarginLoss", "nn.MultiMarginLoss", "nn.CTCLoss"}
# They copy from one part of a tensor to another part of it, which eager recipes refuse.
REFUSED_IN_EAGER = {"nn.CircularPad1d", "nn.CircularPad2d", "nn.CircularPad3d"}


def functions_of(info: Any, dtype: str) -> Iterator[tuple[Function, list[torch.Tensor]]]:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    given = info.module_inputs_func(
        info, device="cpu", dtype=kind, requires_grad=True, training=True
    )
    for sample in itertools.islice(given, SAMPLES):
        made = sample.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).to(kind).train()
        for part in module.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
        yield closed(module, sample.forward_input)


def closed(module: nn.Module, sample: Any) -> tuple[Function, list[torch.Tensor]]:
    """The call of the module as a function of its parameters, buffers and the tensors that it is
    given. It returns results and buffers."""
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    buffers = [name for name, _ in module.named_buffers()]

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        state = dict(zip(own, tensors, strict=False))
        filled = list(leaves)
        for place, tensor in zip(places, tensors[len(own) :], strict=True):
            filled[place] = tensor
        args, kwargs = pytree.tree_unflatten(filled, spec)
        results = pytree.tree_leaves(torch.func.functional_call(module, state, args, kwargs))
        return [*(r for r in results if isinstance(r, torch.Tensor)), *(state[b] for b in buffers)]

    return function, [*own.values(), *(leaves[place] for place in places)]


def cases(mode: str, dtype: str) -> list[tuple[str, str, Any]]:
    return [
        (mode, dtype, info)
        for info in module_db
        if info.name not in ARBITRARY
        and not info.is_lazy
        and (dtype == "float32" or info.name not in ONLY_F32)
    ]


def name(case: tuple[str, str, Any]) -> str:
    mode, dtype, info = case
    return f"{mode}-{dtype}-{info.name}"


def check(case: tuple[str, str, Any]) -> None:
    mode, dtype, info = case
    outcome = outcome_of_functions(mode, info.name, functions_of(info, dtype))
    listed = REFUSED | (REFUSED_IN_EAGER if mode == "eager" else set())
    if dtype == "float32":
        listed |= REFUSED_LOSSES
    refused = mode != "compiled" and info.name in listed
    assert outcome in (("refused", "no gradient") if refused else ("right", "none"))


@pytest.mark.parametrize(
    "case",
    [
        case
        for mode, count in SHORT.items()
        for dtype in TYPES
        for case in random.Random(f"{mode} {dtype}").sample(cases(mode, dtype), count)
    ],
    ids=name,
)
def test_samples(case: tuple[str, str, Any]) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("module", [info.name for _, _, info in cases("eager", "float32")])
def test_all_samples(module: str) -> None:
    wrong = []
    for mode, dtype in itertools.product(SHORT, TYPES):
        for case in cases(mode, dtype):
            if case[2].name != module:
                continue
            try:
                check(case)
            except Exception as error:
                wrong.append(f"{mode}, {dtype}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
