"""Recurrent layers in graphs: one call for each direction of a layer, and one for its gradients,
however many steps there are.

On devices that it does not know, PyTorch composes nn.LSTM and its like from the computations of
each step, also for fake tensors. That takes longer than everything else in a compilation. Here
layers on hpu that are traced or recorded are calls of `hpu::recurrent_layer`, whose autograd calls
`hpu::recurrent_layer_backward`; the compile server makes the steps (passes/decompose/recurrent.cc).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from .. import native
from ..internal import bridge_config
from ..internal.flag_table import AUTOCAST_LISTS
from ..torch_compat.dispatcher import (
    DispatchKey,
    DispatchKeySet,
    ForceDispatchKeyGuard,
    dispatch_tls_local_exclude_set,
    dispatch_tls_local_include_set,
)
from ..torch_compat.transforms import is_functorch_wrapped_tensor

# `input`: [T, B, I]. `state`: hidden [B, P] and, for an LSTM, cell [B, H]. `weights`: two matrices
# [gates * H, I] and [gates * H, P]; then the biases, if any; then [P, H] for a projection. Products
# have the weights' type, which under autocast may be narrower than the state's. The results are the
# outputs of all steps [T, B, P] and the last state; those of the backward are the gradients of
# `input`, `state` and `weights`. `grads`: the gradients of the results.
_library = torch.library.Library("hpu", "FRAGMENT")
_library.define(
    "recurrent_layer(str kind, Tensor input, Tensor[] state, Tensor[] weights, bool reverse) "
    "-> Tensor[]"
)
_library.define(
    "recurrent_layer_backward(str kind, Tensor?[] grads, Tensor input, Tensor[] state, "
    "Tensor[] weights, bool reverse) -> Tensor[]"
)

KINDS = ("gru", "lstm", "rnn_relu", "rnn_tanh")
# The types that recipes calculate with.
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)

_by_steps = threading.local()  # .on: PyTorch composes layers in this thread

Tensors = Sequence[torch.Tensor]
Gradients = Sequence[torch.Tensor | None]


def _whole(
    kind: str, input: torch.Tensor, state: Tensors, weights: Tensors, reverse: bool
) -> list[torch.Tensor]:
    """Computes the layer with PyTorch's own op."""
    x = input.flip(0) if reverse else input
    hx: Any = [s.unsqueeze(0) for s in state]
    hx = hx if kind == "lstm" else hx[0]
    dtype = weights[0].dtype
    with torch.autocast(input.device.type, dtype, enabled=state[-1].dtype != dtype):
        more = (len(weights) > 3, 1, 0.0, False, False, False)
        y, *last = getattr(torch, kind)(x, hx, list(weights), *more)
    return [y.flip(0) if reverse else y, *(s.squeeze(0) for s in last)]


@contextmanager
def _composed(wanted: bool) -> Iterator[None]:
    """In the block, layers consist of steps that autograd knows, also where tracing would make
    calls of them."""
    before = getattr(_by_steps, "on", False)
    _by_steps.on = before or wanted
    try:
        yield
    finally:
        _by_steps.on = before


def _gradients(
    kind: str, grads: Gradients, given: Tensors, states: int, reverse: bool, create_graph: bool
) -> list[torch.Tensor | None]:
    """The gradients of `given`, which are input, state and weights, by autograd of PyTorch's own
    op."""
    with _composed(create_graph):
        results = _whole(kind, given[0], given[1 : 1 + states], given[1 + states :], reverse)
    pairs = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None]
    wanted = [t for t in given if t.requires_grad]
    found = torch.autograd.grad(
        [r for r, _ in pairs],
        wanted,
        [g for _, g in pairs],
        allow_unused=True,
        create_graph=create_graph,
    )
    of_wanted = {id(t): g for t, g in zip(wanted, found, strict=True)}
    return [of_wanted.get(id(t)) for t in given]


@torch.library.impl(_library, "recurrent_layer", "CompositeExplicitAutograd")
def _layer(*args: Any) -> list[torch.Tensor]:
    """Runs in an eager step."""
    return [result.contiguous() for result in _whole(*args)]


@contextmanager
def _autograd() -> Iterator[None]:
    """Turns autograd on again inside a kernel, which the dispatcher calls below autograd."""
    keys = DispatchKeySet(DispatchKey.ADInplaceOrView)
    for key in (DispatchKey.AutogradHPU, DispatchKey.AutogradCPU):
        keys = keys | DispatchKeySet(key)
    excluded = dispatch_tls_local_exclude_set() - keys
    included = dispatch_tls_local_include_set()
    with ForceDispatchKeyGuard(included, excluded), torch.enable_grad():
        yield


@torch.library.impl(_library, "recurrent_layer_backward", "CompositeExplicitAutograd")
def _layer_backward(
    kind: str,
    grads: Gradients,
    input: torch.Tensor,
    state: Tensors,
    weights: Tensors,
    reverse: bool,
) -> list[torch.Tensor]:
    """Runs in an eager step."""
    with _autograd():
        given = [t.detach().requires_grad_() for t in (input, *state, *weights)]
        found = _gradients(kind, grads, given, len(state), reverse, False)
    pairs = zip(given, found, strict=True)
    return [torch.zeros_like(t) if g is None else g.contiguous() for t, g in pairs]


@torch.library.register_fake("hpu::recurrent_layer", lib=_library)
def _(
    kind: str, input: torch.Tensor, state: Tensors, weights: Tensors, reverse: bool
) -> list[torch.Tensor]:
    """The results have the types that the steps would have."""
    product = weights[0].dtype
    carried = torch.promote_types(product, state[-1].dtype)
    projected = len(weights) % 2 == 1
    hidden = product if projected or kind.startswith("rnn") else carried
    last = [state[0].new_empty(state[0].shape, dtype=hidden)]
    if kind == "lstm":
        last.append(state[1].new_empty(state[1].shape, dtype=carried))
    return [input.new_empty((input.shape[0], *state[0].shape), dtype=hidden), *last]


@torch.library.register_fake("hpu::recurrent_layer_backward", lib=_library)
def _(
    kind: str,
    grads: Gradients,
    input: torch.Tensor,
    state: Tensors,
    weights: Tensors,
    reverse: bool,
) -> list[torch.Tensor]:
    return [t.new_empty(t.shape) for t in (input, *state, *weights)]


class _Layer(torch.autograd.Function):
    """One direction of one layer. tensors: input, state, weights."""

    @staticmethod
    def forward(ctx: Any, kind: str, states: int, reverse: bool, *tensors: torch.Tensor) -> Any:
        ctx.how = kind, states, reverse
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        input, state, weights = tensors[0], tensors[1 : 1 + states], tensors[1 + states :]
        op = torch.ops.hpu.recurrent_layer.default
        return tuple(op(kind, input, list(state), list(weights), reverse))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        kind, states, reverse = ctx.how
        given = ctx.saved_tensors
        found: Gradients = [None] * len(given)
        # create_graph: computed by steps, whose gradients autograd knows
        if torch.is_grad_enabled():
            # Views are used because they do not depend on each other.
            views = [t.view_as(t) for t in given]
            found = _gradients(kind, grads, views, states, reverse, True)
        elif any(g is not None for g in grads):
            state, weights = given[1 : 1 + states], given[1 + states :]
            op = torch.ops.hpu.recurrent_layer_backward.default
            found = op(kind, list(grads), given[0], list(state), list(weights), reverse)
        return None, None, None, *found


def _is_ours(
    input: torch.Tensor, hx: Any, params: Tensors, count: int, dropout: float, train: bool
) -> bool:
    """False for calls that PyTorch should compose, or reject with its own error. count: the layers
    of all directions."""
    if getattr(_by_steps, "on", False):
        return False
    states = [hx] if isinstance(hx, torch.Tensor) else hx
    tensors = (input, *states, *params)
    if not all(t.device.type == "hpu" and t.dtype in _DTYPES for t in tensors):
        return False
    if any(is_functorch_wrapped_tensor(t) for t in tensors):
        return False
    if any(t.dim() != 3 or t.shape[0] != count for t in states) or input.dim() != 3:
        return False
    if input.numel() == 0 or not params:
        return False
    autocast = torch.is_autocast_enabled("hpu")
    if autocast and any(bridge_config.get(flag) for flag in AUTOCAST_LISTS):
        return False  # the user's lists say which types the steps have
    if not autocast and len({t.dtype for t in tensors}) > 1:
        return False
    # Eager calls without a gradient are one CPU call, which draws its masks by itself.
    wants_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not (train and dropout > 0) or wants_gradient or autocast


def layers(
    kind: str,
    input: torch.Tensor,
    hx: Any,
    params: Tensors,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...] | None:
    """Computes torch.lstm and its like by calls of whole layers. Returns None for calls that
    PyTorch should compose, or reject with its own error."""
    directions = 2 if bidirectional else 1
    if not _is_ours(input, hx, params, num_layers * directions, dropout, train):
        return None
    given = hx if kind == "lstm" else [hx]
    if torch.is_autocast_enabled("hpu"):
        dtype = torch.get_autocast_dtype("hpu")
        params = [p.to(dtype) for p in params]
        if kind == "lstm":  # its steps multiply the state, which autocast does in this type
            given = [s.to(dtype) for s in given]
    each = len(params) // (num_layers * directions)
    states = [s.unbind(0) for s in given]
    x = input.transpose(0, 1) if batch_first else input
    finals: list[Any] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            weights = params[k * each : (k + 1) * each]
            tensors = (x.to(weights[0].dtype), *(s[k] for s in states), *weights)
            output, *final = _Layer.apply(kind, len(states), direction == 1, *tensors)
            outputs.append(output)
            finals.append(final)
        x = outputs[0] if directions == 1 else torch.cat(outputs, 2)
        if train and dropout > 0 and layer + 1 < num_layers:
            x = torch.dropout(x, dropout, True)
    y = x.transpose(0, 1) if batch_first else x
    return y, *(torch.stack(final) for final in zip(*finals, strict=True))


# In lazy mode and in HPU graphs the two are recorded.
for _name in ("recurrent_layer", "recurrent_layer_backward"):
    native.torch_module().register_op_kernel(f"hpu::{_name}", "")
