"""Composite functions that are recorded as the one ATen op that they are.

PyTorch would decompose them on the way to the device, but the compile server has a better lowering
of its own for the whole (a matmul of four dimensions, a norm, an attention). A handler gets the
call's arguments and returns the ATen call. It returns None where the function does something else
(dropout, training statistics); then the call is traced like any other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from ...torch_compat.ops import OpOverload
from .decompositions.int4_weights import record_int4_matmul

AtenCall = tuple[OpOverload, tuple[Any, ...], dict[str, Any]]
Handler = Callable[..., AtenCall | None]

_aten = torch.ops.aten


def _linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> AtenCall | None:
    if weight.dim() != 2 or input.dim() < 1:
        return None
    return _aten.linear.default, (input, weight, bias), {}


def _matmul(input: torch.Tensor, other: torch.Tensor) -> AtenCall | None:
    return _aten.matmul.default, (input, other), {}


def _layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> AtenCall | None:
    return _aten.layer_norm.default, (input, list(normalized_shape), weight, bias, eps), {}


def _rms_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> AtenCall | None:
    return _aten.rms_norm.default, (input, list(normalized_shape), weight, eps), {}


def _group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> AtenCall | None:
    return _aten.group_norm.default, (input, num_groups, weight, bias, eps), {}


def _batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> AtenCall | None:
    if training or running_mean is None or running_var is None:
        return None
    arguments = (input, weight, bias, running_mean, running_var, False, momentum, eps, False)
    return _aten.batch_norm.default, arguments, {}


def _instance_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> AtenCall | None:
    if not use_input_stats or running_mean is not None or running_var is not None:
        return None
    arguments = (input, weight, bias, None, None, True, momentum, eps, False)
    return _aten.instance_norm.default, arguments, {}


def _prelu(input: torch.Tensor, weight: torch.Tensor) -> AtenCall | None:
    return _aten.prelu.default, (input, weight), {}


def _log_sigmoid(input: torch.Tensor) -> AtenCall | None:
    return _aten.log_sigmoid.default, (input,), {}


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AtenCall | None:
    if dropout_p > 0:
        return None  # PyTorch's own composition draws the mask
    keywords = {"scale": scale, "enable_gqa": enable_gqa}
    arguments = (query, key, value, attn_mask, 0.0, is_causal)
    return _aten.scaled_dot_product_attention.default, arguments, keywords


def _recurrent(op: OpOverload) -> Handler:
    """Handles torch.lstm and its like on a batch of sequences. For packed sequences the second
    argument has their lengths."""

    def handle(*args: Any, **keywords: Any) -> AtenCall | None:
        if keywords or not isinstance(args[3], bool):
            return None
        dropout, train = args[5:7]
        if train and dropout > 0:
            return None  # PyTorch's own composition draws the masks
        return op, args, {}

    return handle


_FUNCTIONS: dict[Any, Handler] = {
    F.linear: _linear,
    torch.matmul: _matmul,
    torch.Tensor.matmul: _matmul,
    torch.Tensor.__matmul__: _matmul,
    operator.matmul: _matmul,
    F.layer_norm: _layer_norm,
    torch.layer_norm: lambda *a, **k: _layer_norm(*a[:5], **_without(k, "cudnn_enable")),
    F.rms_norm: _rms_norm,
    torch.rms_norm: _rms_norm,
    F.group_norm: _group_norm,
    F.batch_norm: _batch_norm,
    F.instance_norm: _instance_norm,
    F.prelu: _prelu,
    F.logsigmoid: _log_sigmoid,
    F.scaled_dot_product_attention: _attention,
    _aten._weight_int4pack_mm_for_cpu: record_int4_matmul,
    _aten._weight_int4pack_mm_for_cpu.default: record_int4_matmul,
    torch.gru: _recurrent(_aten.gru.input),
    torch.lstm: _recurrent(_aten.lstm.input),
    torch.rnn_relu: _recurrent(_aten.rnn_relu.input),
    torch.rnn_tanh: _recurrent(_aten.rnn_tanh.input),
}
_METHODS: dict[str, Handler] = {"matmul": _matmul, "__matmul__": _matmul}


def _without(keywords: dict[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in keywords.items() if k != name}


def find_handler(op: str, target: Any) -> Handler | None:
    """The handler of an FX node (its op and target), if the function is one of the above."""
    if op == "call_method":
        return _METHODS.get(target)
    try:
        return _FUNCTIONS.get(target)
    except TypeError:
        return None
