"""Mixture of experts: y = sum over a token's experts of router weight * (act(x w1) * (x w2)) w3.

w12 joins w1 and w2 along their results. Permuted weights are [results, operands]. Experts are
numbered from experts_min; a token's experts outside of [experts_min, experts_max] add nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .definition import operator
from .fp8 import wide

_ACTIVATIONS = {"gelu": F.gelu, "relu": torch.relu, "silu": F.silu}
# The gated unit of GPT-OSS, which the form with biases has: its limit and its factor.
_LIMIT, _ALPHA = 7.0, 1.702

Tensors = Sequence[Tensor]


def _results(
    hidden_states: Tensor, _: Tensor, router_weights: Tensor, *more: Any, **__: object
) -> Tensor:
    if more:
        _check_call(more)
    small = hidden_states.dtype.itemsize == 1
    return hidden_states.new_empty(
        hidden_states.shape, dtype=router_weights.dtype if small else hidden_states.dtype
    )


def _check(activation: str, weights: Tensors, experts_min: int, experts_max: int) -> None:
    if activation not in _ACTIVATIONS:
        raise RuntimeError(
            f"hpu::mixture_of_experts: activation is {activation!r}; it is one of "
            f"{', '.join(_ACTIVATIONS)}"
        )
    if experts_max - experts_min + 1 != len(weights):
        raise RuntimeError(
            f"hpu::mixture_of_experts: weights of {len(weights)} experts for experts "
            f"{experts_min} to {experts_max}"
        )


def _check_call(more: tuple[Any, ...]) -> None:
    """The arguments behind the router's weights: lists of weights, perhaps others, whether weights
    are permuted, perhaps the activation, and the numbers of the experts."""
    place = next(i for i, value in enumerate(more) if isinstance(value, bool)) + 1
    activation = "silu"
    if isinstance(more[place], str):
        activation, place = more[place], place + 1
    for weights in itertools.takewhile(lambda value: not isinstance(value, Tensor), more[:3]):
        if not isinstance(weights, bool):
            _check(activation, weights, more[place], more[place + 1])


def _by_results(weight: Tensor, scale: Tensor | None, permuted: bool) -> Tensor:
    """A weight as [operands, results], with a scale that is one number or one for each result."""
    matrix = wide(weight).mT if permuted else wide(weight)
    return matrix if scale is None else matrix * wide(scale).reshape(-1)


def _experts(
    hidden_states: Tensor,
    expert_routing_table: Tensor,
    router_weights: Tensor,
    w12: Sequence[tuple[Tensor, Tensor]],
    w3: Tensors,
    activation: str,
    experts_min: int,
    biases: tuple[Tensors, Tensors] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """The result, and the largest element between the products of each expert. Weights are
    [operands, results]."""
    x = wide(hidden_states)
    y = torch.zeros_like(x)
    largest = []
    for n, ((gates, ups), down) in enumerate(zip(w12, w3, strict=True)):
        gate, up = x @ gates, x @ ups
        if biases is None:
            between = _ACTIVATIONS[activation](gate) * up
        else:
            gate, up = gate + wide(biases[0][n])[::2], up + wide(biases[0][n])[1::2]
            gate = gate.clamp(max=_LIMIT)
            between = gate * (_ALPHA * gate).sigmoid() * (up.clamp(-_LIMIT, _LIMIT) + 1)
        largest.append(between.amax() if between.numel() else between.new_zeros(()))
        chosen = expert_routing_table == experts_min + n
        result = between @ down
        if biases is not None:
            result = result + wide(biases[1][n])
        y = y + (wide(router_weights) * chosen).sum(-1, keepdim=True) * result
    return y.to(_results(hidden_states, x, router_weights).dtype), largest


_OPERANDS = "Tensor hidden_states, Tensor expert_routing_table, Tensor router_weights"
_SEPARATE = f"{_OPERANDS}, Tensor[] w1, Tensor[] w2, Tensor[] w3"
_FUSED = f"{_OPERANDS}, Tensor[] w12, Tensor[] w3"
_HOW = "bool permuted_weights, str activation, int experts_min, int experts_max"
_CHUNKS = "int? chunk_size=None, int? total_experts=None"


def _halves(w12: Tensors) -> list[tuple[Tensor, Tensor]]:
    return [(w.chunk(2, -1)[0], w.chunk(2, -1)[1]) for w in w12]


@operator(f"mixture_of_experts({_SEPARATE}, {_HOW}) -> Tensor", results=_results)
def mixture_of_experts(
    hidden_states: Tensor,
    expert_routing_table: Tensor,
    router_weights: Tensor,
    w1: Tensors,
    w2: Tensors,
    w3: Tensors,
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
) -> Tensor:
    return measured(
        hidden_states, expert_routing_table, router_weights, w1, w2, w3, permuted_weights,
        activation, experts_min, experts_max, True,
    )[0]  # fmt: skip


def _measured_results(
    hidden_states: Tensor, table: Tensor, router_weights: Tensor, weights: Tensors, *more: Any
) -> tuple[Tensor, Tensor]:
    _check_call((weights, *more))
    y = _results(hidden_states, table, router_weights)
    return y, y.new_empty(len(weights), dtype=torch.float32)


@operator(
    f"mixture_of_experts.fp8_measurement({_SEPARATE}, {_HOW}, bool measurement_mode) -> "
    "(Tensor, Tensor)",
    results=_measured_results,
)
def measured(
    hidden_states: Tensor,
    expert_routing_table: Tensor,
    router_weights: Tensor,
    w1: Tensors,
    w2: Tensors,
    w3: Tensors,
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
    measurement_mode: bool,
) -> tuple[Tensor, Tensor]:
    for weights in (w1, w2, w3):
        _check(activation, weights, experts_min, experts_max)
    first, second, last = (
        [_by_results(w, None, permuted_weights) for w in weights] for weights in (w1, w2, w3)
    )
    y, largest = _experts(
        hidden_states, expert_routing_table, router_weights,
        list(zip(first, second, strict=True)), last, activation, experts_min,
    )  # fmt: skip
    return y, torch.stack(largest).float()


# This precedes the overload below, which would take measurement_mode for its chunk_size.
@operator(
    f"mixture_of_experts.fp8_measurement_fused_weights({_FUSED}, {_HOW}, bool measurement_mode) "
    "-> (Tensor, Tensor)",
    results=_measured_results,
)
def measured_fused(
    hidden_states: Tensor,
    expert_routing_table: Tensor,
    router_weights: Tensor,
    w12: Tensors,
    w3: Tensors,
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
    measurement_mode: bool,
) -> tuple[Tensor, Tensor]:
    first, second = zip(*(w.chunk(2, 0 if permuted_weights else 1) for w in w12), strict=True)
    return measured(
        hidden_states, expert_routing_table, router_weights, first, second, w3, permuted_weights,
        activation, experts_min, experts_max, measurement_mode,
    )  # fmt: skip


@operator(
    f"mixture_of_experts.fused_weights({_FUSED}, {_HOW}, {_CHUNKS}) -> Tensor", results=_results
)
def fused(
    hidden_states: Tensor,
    expert_routing_table: Tensor,
    router_weights: Tensor,
    w12: Tensors,
    w3: Tensors,
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
    chunk_size: int | None = None,
    total_experts: int | None = None,
) -> Tensor:
    return scaled_weights(
        hidden_states, expert_routing_table, router_weights, w12, w3, None, [], [], [],
        permuted_weights, activation, experts_min, experts_max,
    )  # fmt: skip


@operator(
    f"mixture_of_experts.bias_fused_weights({_FUSED}, Tensor[] w12_bias, Tensor[] w3_bias, "
    f"bool permuted_weights, int experts_min, int experts_max, {_CHUNKS}) -> Tensor",
    results=_results,
)
def with_biases(
    hidden_states: Tensor,
    expert_routing_table: Tensor,
    router_weights: Tensor,
    w12: Tensors,
    w3: Tensors,
    w12_bias: Tensors,
    w3_bias: Tensors,
    permuted_weights: bool,
    experts_min: int,
    experts_max: int,
    chunk_size: int | None = None,
    total_experts: int | None = None,
) -> Tensor:
    """The gated unit of GPT-OSS, whose gates and other halves alternate in w12."""
    for weights in (w12, w3):
        _check("silu", weights, experts_min, experts_max)
    both = [_by_results(w, None, permuted_weights) for w in w12]
    last = [_by_results(w, None, permuted_weights) for w in w3]
    return _experts(
        hidden_states, expert_routing_table, router_weights,
        [(w[:, ::2], w[:, 1::2]) for w in both], last, "silu", experts_min, (w12_bias, w3_bias),
    )[0]  # fmt: skip


@operator(
    f"mixture_of_experts.fp8_fused_weights({_FUSED}, Tensor d_scale_hidden_states, "
    f"Tensor[] d_scale_intermediate_hidden_states, Tensor[] d_scale_w12, Tensor[] d_scale_w3, "
    f"{_HOW}, {_CHUNKS}) -> Tensor",
    results=_results,
)
def scaled_weights(
    hidden_states: Tensor,
    expert_routing_table: Tensor,
    router_weights: Tensor,
    w12: Tensors,
    w3: Tensors,
    d_scale_hidden_states: Tensor | None,
    d_scale_intermediate_hidden_states: Tensors,
    d_scale_w12: Tensors,
    d_scale_w3: Tensors,
    permuted_weights: bool,
    activation: str,
    experts_min: int,
    experts_max: int,
    chunk_size: int | None = None,
    total_experts: int | None = None,
) -> Tensor:
    """The values between the products stay wide, where a card rounds them to 8 bits with
    d_scale_intermediate_hidden_states."""
    for weights in (w12, w3):
        _check(activation, weights, experts_min, experts_max)
    x = hidden_states
    if d_scale_hidden_states is not None:
        x = (wide(x) * wide(d_scale_hidden_states)).to(router_weights.dtype)

    def widened(weights: Tensors, scales: Tensors) -> list[Tensor]:
        given: Sequence[Tensor | None] = scales or [None] * len(weights)
        return [_by_results(w, s, permuted_weights) for w, s in zip(weights, given, strict=True)]

    return _experts(
        x, expert_routing_table, router_weights, _halves(widened(w12, d_scale_w12)),
        widened(w3, d_scale_w3), activation, experts_min,
    )[0]  # fmt: skip


@operator(
    f"mixture_of_experts.fp8_fused_weights_scalars({_FUSED}, Tensor d_scale_hidden_states, "
    f"Tensor d_scale_intermediate_hidden_states, Tensor[] d_scale_w12, Tensor[] d_scale_w3, "
    f"{_HOW}, {_CHUNKS}) -> Tensor",
    f"mixture_of_experts.fp8_fused_weights_dynamic({_FUSED}, Tensor d_scale_hidden_states, "
    f"Tensor[] d_scale_w12, Tensor[] d_scale_w3, {_HOW}, {_CHUNKS}) -> Tensor",
    results=_results,
)
def scaled_weights_of_one_scale(
    hidden_states: Tensor,
    expert_routing_table: Tensor,
    router_weights: Tensor,
    w12: Tensors,
    w3: Tensors,
    d_scale_hidden_states: Tensor,
    *more: Any,
) -> Tensor:
    """d_scale_intermediate_hidden_states is one tensor, or left out."""
    rest = more[1:] if isinstance(more[0], Tensor) else more
    return scaled_weights(
        hidden_states, expert_routing_table, router_weights, w12, w3, d_scale_hidden_states, [],
        *rest,
    )  # fmt: skip
