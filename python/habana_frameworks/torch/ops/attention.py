"""Attention as Gaudi's kernels have it.

q, k and v are [.., heads, length, size]; k and v may have fewer heads, each for a group of those of
q. Masks are additive or boolean. A window (left, right) lets a query see that many keys before and
behind its own place; -1 is no limit. valid_seq_len [batch] hides the padding of keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .attention_inputs import check_dropout, check_operands, check_window, hidden_keys
from .definition import operator
from .fp8 import cast_from_fp8, largest, saturated, wide

# In the mode "fast" a card gives 1 / sum divided by this.
_FAST_SUM = 128.0


def _heads_of(x: Tensor, heads: int) -> Tensor:
    return x if x.shape[-3] == heads else x.repeat_interleave(heads // x.shape[-3], -3)


def _sum_of_groups(x: Tensor, heads: int) -> Tensor:
    return x if x.shape[-3] == heads else x.unflatten(-3, (heads, -1)).sum(-3)


def _scores(
    q: Tensor, k: Tensor, mask: Tensor | None, scale: float, hidden: Tensor | None
) -> Tensor:
    scores = (wide(q) @ wide(_heads_of(k, q.shape[-3])).mT) * scale
    if mask is not None:
        seen = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -math.inf) if seen else scores + wide(mask)
    return scores if hidden is None else scores.masked_fill(hidden, -math.inf)


def _check_padding(seq_padding_type: str, valid_seq_len: Tensor | None) -> None:
    """Without lengths there is no padding, and callers pass other words ("None")."""
    if valid_seq_len is not None and seq_padding_type.lower() not in ("left", "right"):
        raise RuntimeError(
            f"attention: seq_padding_type is {seq_padding_type!r}, not 'left' or 'right'"
        )


_FORWARD = (
    "Tensor q, Tensor k, Tensor v, Tensor? attention_mask, float p, float scale, bool is_causal"
)
_LENGTHS = "Tensor? valid_seq_len, str seq_padding_type"


@operator(
    f"sdpa_fwd({_FORWARD}, str softmax_mode, {_LENGTHS}) -> (Tensor, Tensor, Tensor)", draws=True
)
def sdpa_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    softmax_mode: str,
    valid_seq_len: Tensor | None,
    seq_padding_type: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, the weights before dropout, and which of them are kept (i8; [1] without
    dropout)."""
    check_operands("hpu::sdpa_fwd", q, k, v)
    check_dropout("hpu::sdpa_fwd: p", p)
    _check_padding(seq_padding_type, valid_seq_len)
    hidden = hidden_keys(q, k, is_causal, valid_seq_len, seq_padding_type.lower(), None)
    scores = _scores(q, k, attention_mask, scale, hidden)
    blind = scores.amax(-1, keepdim=True) == -math.inf
    weights = torch.softmax(scores, -1).masked_fill(blind, 0.0)
    kept = torch.ones(1, dtype=torch.int8, device=q.device)
    dropped = weights
    if p > 0:
        keep = torch.rand_like(weights) >= p
        kept, dropped = keep.to(torch.int8), weights * keep / (1 - p)
    y = dropped @ wide(_heads_of(v, q.shape[-3]))
    return y.to(q.dtype), weights.to(q.dtype), kept


def _through_softmax(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    weights: Tensor,
    kept: Tensor | None,
    scale: float,
    out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v. kept: the factors of the weights by dropout."""
    heads, groups = q.shape[-3], k.shape[-3]
    g, keys, values = wide(grad), wide(_heads_of(k, heads)), wide(_heads_of(v, heads))
    used = weights if kept is None else weights * kept
    of_weights = g @ values.mT
    if kept is not None:
        of_weights = of_weights * kept
    of_sums = (g * wide(out)).sum(-1, keepdim=True)
    of_scores = weights * (of_weights - of_sums) * scale
    return (
        (of_scores @ keys).to(q.dtype),
        _sum_of_groups(of_scores.mT @ wide(q), groups).to(k.dtype),
        _sum_of_groups(used.mT @ g, groups).to(v.dtype),
    )


@operator(
    "sdpa_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor P, Tensor? dm, bool is_causal, "
    "float p, float scale, Tensor fwd_out) -> (Tensor, Tensor, Tensor)"
)
def sdpa_bwd(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    P: Tensor,
    dm: Tensor | None,
    is_causal: bool,
    p: float,
    scale: float,
    fwd_out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    kept = wide(dm) / (1 - p) if p > 0 and dm is not None else None
    return _through_softmax(grad, q, k, v, wide(P), kept, scale, fwd_out)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    q, k, v, mask, p, scale, is_causal, _, softmax_mode, lengths, _, window, sinks = inputs
    if lengths is not None or sinks is not None:
        raise RuntimeError(
            "hpu::sdpa_recomp_fwd: valid_seq_len and sinks have no gradient; call it under "
            "torch.no_grad()"
        )
    if mask is not None and mask.requires_grad:
        raise RuntimeError(
            "hpu::sdpa_recomp_fwd: attention_mask has no gradient here; call FusedSDPA.apply, "
            "which has one, or detach it"
        )
    out, maximum, inverse, seed = output
    ctx.save_for_backward(q, k, v, mask, maximum, inverse, seed, out)
    ctx.how = is_causal, p, scale, softmax_mode
    ctx.window = window


def _gradient(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
    *saved, out = ctx.saved_tensors
    found = torch.ops.hpu.sdpa_recomp_bwd(grad, *saved, *ctx.how, out, ctx.window)
    return (*found, *[None] * 10)


@operator(
    f"sdpa_recomp_fwd({_FORWARD}, bool requires_backward, str softmax_mode, {_LENGTHS}, "
    "int[]? window_size=None, Tensor? sinks=None) -> (Tensor, Tensor, Tensor, Tensor)",
    gradient=_gradient,
    save=_save,
)
def sdpa_recomp_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    requires_backward: bool,
    softmax_mode: str,
    valid_seq_len: Tensor | None,
    seq_padding_type: str,
    window_size: Sequence[int] | None = None,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The result, and in f32 the largest score m and 1 / sum(exp(score - m)) of each row, 0 and 1
    where all keys are hidden. A sink is a score of each head that adds to the sum and to nothing
    else."""
    check_operands("hpu::sdpa_recomp_fwd", q, k, v)
    check_window("hpu::sdpa_recomp_fwd", window_size)
    _check_padding(seq_padding_type, valid_seq_len)
    if p != 0:
        raise RuntimeError(
            "hpu::sdpa_recomp_fwd: dropout is not drawn here; use FusedSDPA.apply or hpu::sdpa_fwd"
        )
    hidden = hidden_keys(q, k, is_causal, valid_seq_len, seq_padding_type.lower(), window_size)
    scores = _scores(q, k, attention_mask, scale, hidden)
    maximum = scores.amax(-1, keepdim=True)
    blind = maximum == -math.inf
    maximum = torch.where(blind, 0.0, maximum)
    exponentials = (scores - maximum).exp()
    total = torch.where(blind, 1.0, exponentials.sum(-1, keepdim=True))
    if sinks is not None:
        total = total + (wide(sinks).reshape(*q.shape[1:-2], 1, 1) - maximum).exp()
    y = (exponentials / total) @ wide(_heads_of(v, q.shape[-3]))
    inverse = total.reciprocal()
    if softmax_mode.lower() == "fast":
        inverse = inverse / _FAST_SUM
    seed = torch.zeros(1, dtype=torch.int32, device=q.device)
    return y.to(q.dtype), maximum, inverse, seed


@operator(
    "sdpa_recomp_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor? attention_mask, Tensor m, "
    "Tensor linv, Tensor? seed, bool is_causal, float p, float scale, str softmax_mode, "
    "Tensor fwd_out, int[]? window_size=None) -> (Tensor, Tensor, Tensor)"
)
def sdpa_recomp_bwd(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    m: Tensor,
    linv: Tensor,
    seed: Tensor | None,
    is_causal: bool,
    p: float,
    scale: float,
    softmax_mode: str,
    fwd_out: Tensor,
    window_size: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    hidden = hidden_keys(q, k, is_causal, None, "left", window_size)
    inverse = wide(linv) * (_FAST_SUM if softmax_mode.lower() == "fast" else 1.0)
    weights = (_scores(q, k, attention_mask, scale, hidden) - wide(m)).exp() * inverse
    return _through_softmax(grad, q, k, v, weights, None, scale, fwd_out)


# ---- attention of floats of 8 bits ---------------------------------------------------------------

_SCALES = ", ".join(
    f"Tensor? {name}"
    for name in ("d_scale_q", "d_scale_k", "d_scale_v", "q_scale_s", "q_scale_o", "d_scale_s")
)


def _widened(x: Tensor, scale: Tensor | None) -> Tensor:
    return cast_from_fp8(x, scale, torch.bfloat16)


def _amax(x: Tensor, wanted: bool) -> Tensor:
    return largest(wide(x)).reshape(1) if wanted else torch.zeros(1, device=x.device)


def _narrowed(y: Tensor, scale: Tensor | None) -> Tensor:
    return y if scale is None else saturated(wide(y) * wide(scale), torch.float8_e4m3fn)


@operator(
    f"fp8_sdpa_recomp_fwd({_FORWARD}, bool requires_backward, str softmax_mode, {_SCALES}, "
    f"bool is_amax_s, bool is_amax_o, {_LENGTHS}, int[]? window_size=None, Tensor? sinks=None) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def fp8_sdpa_recomp_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    requires_backward: bool,
    softmax_mode: str,
    d_scale_q: Tensor | None,
    d_scale_k: Tensor | None,
    d_scale_v: Tensor | None,
    q_scale_s: Tensor | None,
    q_scale_o: Tensor | None,
    d_scale_s: Tensor | None,
    is_amax_s: bool,
    is_amax_o: bool,
    valid_seq_len: Tensor | None,
    seq_padding_type: str,
    window_size: Sequence[int] | None = None,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The weights stay wide, where a card rounds them to 8 bits: q_scale_s and d_scale_s cancel
    out. With q_scale_o the result is e4m3, without it bf16."""
    operands = _widened(q, d_scale_q), _widened(k, d_scale_k), _widened(v, d_scale_v)
    y, maximum, inverse, seed = torch.ops.hpu.sdpa_recomp_fwd(
        *operands, attention_mask, p, scale, is_causal, requires_backward, softmax_mode,
        valid_seq_len, seq_padding_type, window_size, sinks,
    )  # fmt: skip
    # The largest weight of a row is exp(0) times the inverse of its sum.
    largest = inverse * (_FAST_SUM if softmax_mode.lower() == "fast" else 1.0)
    return (
        _narrowed(y, q_scale_o),
        maximum,
        inverse,
        seed,
        _amax(largest, is_amax_s),
        _amax(y, is_amax_o),
    )


@operator(
    f"fp8_sdpa_fwd({_FORWARD}, str softmax_mode, {_SCALES}, bool is_amax_s, {_LENGTHS}) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    draws=True,
)
def fp8_sdpa_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    p: float,
    scale: float,
    is_causal: bool,
    softmax_mode: str,
    d_scale_q: Tensor | None,
    d_scale_k: Tensor | None,
    d_scale_v: Tensor | None,
    q_scale_s: Tensor | None,
    q_scale_o: Tensor | None,
    d_scale_s: Tensor | None,
    is_amax_s: bool,
    valid_seq_len: Tensor | None,
    seq_padding_type: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    operands = _widened(q, d_scale_q), _widened(k, d_scale_k), _widened(v, d_scale_v)
    y, weights, kept = sdpa_fwd(
        *operands, attention_mask, p, scale, is_causal, softmax_mode, valid_seq_len,
        seq_padding_type,
    )  # fmt: skip
    return _narrowed(y, q_scale_o), weights, kept, _amax(weights, is_amax_s)
