"""Softmaxes of parts of a row, of masks and of triangles, and norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .definition import operator
from .fp8 import cast_from_fp8, wide

# ---- softmaxes of blocks of keys -----------------------------------------------------------------


@operator(
    "block_softmax(Tensor attn, Tensor? block_bias, Tensor block_groups) -> "
    "(Tensor, Tensor, Tensor)"
)
def block_softmax(
    attn: Tensor, block_bias: Tensor | None, block_groups: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """exp(score - maximum) of each row of a block, the maxima, and the sums of the exponentials."""
    scores = wide(attn) if block_bias is None else wide(attn) + wide(block_bias)
    maximum = scores.amax(-1, keepdim=True)
    exponentials = (scores - maximum).exp()
    total = exponentials.sum(-1, keepdim=True)
    return exponentials.to(attn.dtype), maximum.to(attn.dtype), total.to(attn.dtype)


@operator(
    "block_softmax_adjustment(Tensor block_max, Tensor block_sums, Tensor block_groups, "
    "int batch_size, int[] out_shape) -> Tensor"
)
def block_softmax_adjustment(
    block_max: Tensor,
    block_sums: Tensor,
    block_groups: Tensor,
    batch_size: int,
    out_shape: Sequence[int],
) -> Tensor:
    """Returns the factors of each block's exponentials with which the blocks of a group are one
    softmax. Blocks whose group is not in [0, batch_size) are padding."""
    if block_max.numel() == 0:
        return block_max.new_empty(out_shape)
    maximum, total = (wide(x).reshape(block_max.shape[0], -1) for x in (block_max, block_sums))
    known = torch.logical_and(block_groups >= 0, block_groups < batch_size)
    group = torch.where(known, block_groups, batch_size)
    none = torch.full((batch_size + 1, maximum.shape[1]), -math.inf, device=maximum.device)
    places = group.unsqueeze(1).expand_as(maximum)
    peaks = none.to(maximum.dtype).scatter_reduce(0, places, maximum, "amax")
    factor = (maximum - peaks[group]).exp()
    adjusted = total * factor
    sums = torch.zeros_like(peaks).index_add(0, group, adjusted)
    rescale = factor / torch.maximum(sums[group], adjusted)
    return rescale.reshape(out_shape).to(block_max.dtype)


@operator(
    "softmax_fa2(Tensor input, *, Tensor? inputM=None, Tensor? inputL=None, int dim=-1, "
    "bool experimental_mode=False, Tensor? descale=None) -> (Tensor, Tensor, Tensor, Tensor)"
)
def softmax_fa2(
    input: Tensor,
    *,
    inputM: Tensor | None = None,
    inputL: Tensor | None = None,
    dim: int = -1,
    experimental_mode: bool = False,
    descale: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A step of a softmax over parts of a row: exp(score - maximum), the maximum and the sum of all
    parts so far, and what earlier exponentials are multiplied by. inputM and inputL are those of
    the parts before."""
    small = input.dtype.itemsize == 1
    scores = wide(cast_from_fp8(input, descale, torch.bfloat16) if small else input)
    dtype = torch.bfloat16 if small else input.dtype
    maximum = scores.amax(dim)
    before = torch.full_like(maximum, -math.inf) if inputM is None else wide(inputM)
    maximum = torch.maximum(before, maximum)
    exponentials = (scores - maximum.unsqueeze(dim)).exp()
    factor = (before - maximum).exp()
    total = exponentials.sum(dim)
    if inputL is not None:
        total = total + factor * wide(inputL)
    return exponentials.to(dtype), maximum.to(dtype), total.to(dtype), factor.to(dtype)


# ---- other softmaxes -----------------------------------------------------------------------------


def _save_softmax(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _softmax_gradient(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    (saved,) = ctx.saved_tensors
    y, g = wide(saved), wide(grad)
    return (y * (g - (g * y).sum(-1, keepdim=True))).to(saved.dtype), None


@operator(
    "custom_softmax(Tensor input, int flavor) -> Tensor",
    gradient=_softmax_gradient,
    save=_save_softmax,
)
def custom_softmax(input: Tensor, flavor: int) -> Tensor:
    """The flavors differ in how a card approximates exp; here they are one."""
    return torch.softmax(wide(input), -1).to(input.dtype)


@operator("scaled_masked_softmax(Tensor input, Tensor mask, float scale) -> Tensor")
def scaled_masked_softmax(input: Tensor, mask: Tensor, scale: float) -> Tensor:
    return torch.softmax(wide(input) * scale + wide(mask), -1).to(input.dtype)


def _triangle(self: Tensor, inv_scale_attn: float) -> Tensor:
    """Scaled scores; -inf where the key is behind the query."""
    rows = torch.arange(self.shape[-2], device=self.device).unsqueeze(-1)
    keys = torch.arange(self.shape[-1], device=self.device)
    return (wide(self) * inv_scale_attn).masked_fill(keys > rows, -math.inf)


@operator(
    "scaled_triangular_softmax(Tensor self, float inv_scale_attn, Tensor? exp_sum_recpr=None, "
    "Tensor? max=None) -> Tensor"
)
def scaled_triangular_softmax(
    self: Tensor,
    inv_scale_attn: float,
    exp_sum_recpr: Tensor | None = None,
    max: Tensor | None = None,
) -> Tensor:
    scores = _triangle(self, inv_scale_attn)
    if exp_sum_recpr is None or max is None:
        return torch.softmax(scores, -1).to(self.dtype)
    return ((scores - wide(max)).exp() * wide(exp_sum_recpr)).to(self.dtype)


@operator(
    "scaled_triangular_softmax_retain(Tensor self, float inv_scale_attn) -> "
    "(Tensor, Tensor, Tensor)"
)
def scaled_triangular_softmax_retain(
    self: Tensor, inv_scale_attn: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The softmax, and of each row 1 / sum(exp(score - maximum)), in f32, and the maximum."""
    scores = _triangle(self, inv_scale_attn)
    maximum = scores.amax(-1, keepdim=True)
    exponentials = (scores - maximum).exp()
    inverse = exponentials.sum(-1, keepdim=True).reciprocal()
    return (exponentials * inverse).to(self.dtype), inverse, maximum.to(self.dtype)


@operator(
    "scaled_masked_triangular_softmax(Tensor self, Tensor start_end, float inv_scale_attn, "
    "int grouped_batch_size, bool use_max, int mode, ScalarType? out_dtype=None) -> Tensor"
)
def scaled_masked_triangular_softmax(
    self: Tensor,
    start_end: Tensor,
    inv_scale_attn: float,
    grouped_batch_size: int,
    use_max: bool,
    mode: int,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Softmax of self [batch, queries, keys] over the keys that are in [start, end) of the row's
    group and not behind the query; the last query stands at the last key. A query without such keys
    gets zeros. start_end holds two integers per group of `grouped_batch_size` rows. `use_max` and
    `mode` choose how a card approximates exp; here all are one."""
    queries, keys = self.shape[-2:]
    start, end = start_end.reshape(-1, 2).repeat_interleave(grouped_batch_size, 0).unbind(1)
    place = torch.arange(keys, device=self.device)
    last = torch.arange(keys - queries, keys, device=self.device).unsqueeze(-1)
    inside = torch.logical_and(place >= start[:, None, None], place < end[:, None, None])
    hidden = torch.logical_not(torch.logical_and(inside, place <= last))
    scores = (wide(self) * inv_scale_attn).masked_fill(hidden, -math.inf)
    # The maximum of no keys would give NaN.
    maximum = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    exponentials = (scores - maximum).exp()
    total = exponentials.sum(-1, keepdim=True)
    result = exponentials / torch.where(total == 0, 1, total)
    return result.to(self.dtype if out_dtype is None else out_dtype)


# ---- norms ---------------------------------------------------------------------------------------


def _normalized(data_in: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    x = wide(data_in)
    inverse = (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return (x * inverse * wide(gamma)).to(data_in.dtype), inverse


def _save_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output[1])


def _gradient_of_norm(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
    """That of the inverse is not followed."""
    return *torch.ops.hpu.rms_norm_backward(grad, *ctx.saved_tensors, True, 0), None


@operator(
    "rms_norm(Tensor data_in, Tensor gamma, float epsilon) -> (Tensor, Tensor)",
    gradient=_gradient_of_norm,
    save=_save_norm,
)
def rms_norm(data_in: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The result, and the inverse of the root of the mean square of each row, in f32."""
    return _normalized(data_in, gamma, epsilon)


@operator(
    "rms_norm_fast(Tensor data_in, Tensor gamma, float epsilon) -> (Tensor, Tensor)",
    gradient=_gradient_of_norm,
    save=_save_norm,
)
def rms_norm_fast(data_in: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    return _normalized(data_in, gamma, epsilon)


_BACKWARD = (
    "(Tensor grad_in, Tensor data_in, Tensor gamma, Tensor inverse_rms{}) -> (Tensor, Tensor)"
)


def _norm_gradients(
    grad_in: Tensor, data_in: Tensor, gamma: Tensor, inverse_rms: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the data and of gamma."""
    inverse = wide(inverse_rms)
    y = wide(data_in) * inverse
    g = wide(grad_in) * wide(gamma)
    of_data = (g - y * (g * y).mean(-1, keepdim=True)) * inverse
    of_gamma = (wide(grad_in) * y).flatten(0, -2).sum(0)
    return of_data.to(data_in.dtype), of_gamma.to(gamma.dtype)


@operator("rms_norm_backward" + _BACKWARD.format(", bool use_stages, int bwd_mode"))
def rms_norm_backward(
    grad_in: Tensor,
    data_in: Tensor,
    gamma: Tensor,
    inverse_rms: Tensor,
    use_stages: bool,
    bwd_mode: int,
) -> tuple[Tensor, Tensor]:
    return _norm_gradients(grad_in, data_in, gamma, inverse_rms)


@operator("rms_norm_fast_backward" + _BACKWARD.format(""))
def rms_norm_fast_backward(
    grad_in: Tensor, data_in: Tensor, gamma: Tensor, inverse_rms: Tensor
) -> tuple[Tensor, Tensor]:
    return _norm_gradients(grad_in, data_in, gamma, inverse_rms)
