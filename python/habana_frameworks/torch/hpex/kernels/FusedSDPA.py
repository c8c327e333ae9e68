"""Attention under the name that Gaudi scripts use, and the reshapes of attention in groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...internal.notices import without_effect
from ...ops.attention_inputs import check_dropout, check_operands, check_window, hidden_keys


def is_gqa(q: Tensor, k: Tensor) -> bool:
    """Whether groups of heads of q share heads of k: [batch, heads, length, size]."""
    return q.dim() == 4 and k.shape[1] not in (1, q.shape[1])


def gqa_input_reshape_fwd(
    q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The operands as [batch, groups, heads of a group, length, size]."""
    groups = k.shape[1]
    heads = q.shape[1] // groups
    if attention_mask is not None:
        by_head = attention_mask.shape[1] == q.shape[1]
        attention_mask = (
            attention_mask.unflatten(1, (groups, heads)) if by_head else attention_mask.unsqueeze(1)
        )
    return q.unflatten(1, (groups, heads)), k.unsqueeze(2), v.unsqueeze(2), attention_mask


def gqa_input_reshape_bwd(q: Tensor, v: Tensor, grad_in: Tensor) -> Tensor:
    """A gradient of the result in the form of q, which has five dimensions."""
    return grad_in.reshape(*q.shape[:4], v.shape[-1])


def gqa_output_reshape(tensor: Tensor) -> Tensor:
    """[batch, groups, heads of a group, ..] as [batch, heads, ..]."""
    return tensor.flatten(1, 2)


def autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the type of autocast on hpu, where it is on."""
    if not torch.is_autocast_enabled("hpu"):
        return tensors
    dtype = torch.get_autocast_dtype("hpu")
    return tuple(t.to(dtype) for t in tensors)


class FusedSDPA:
    """Scaled dot product attention with masks, windows, sinks and valid lengths."""

    @staticmethod
    def apply(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        softmax_mode: str = "None",
        recompute_mode: bool | None = None,
        valid_seq_len: Tensor | None = None,
        seq_padding_type: str = "left",
        return_dropout_mask: bool = False,
        return_attn_probs: bool = False,
        window_size: Sequence[int] | None = None,
        sinks: Tensor | None = None,
    ) -> Any:
        """The result; with return_dropout_mask the dropout mask beside it, and with
        return_attn_probs the weights. Keys and values may have fewer heads (dimension 1).
        valid_seq_len [batch]: how many keys are no padding; it needs is_causal and no gradient.
        softmax_mode and recompute_mode have no effect."""
        check_operands("FusedSDPA", q, k, v)
        check_dropout("FusedSDPA: dropout_p", dropout_p)
        check_window("FusedSDPA", window_size)
        window = None if window_size is None or max(window_size) < 0 else list(window_size)
        of_more = _any_requires_grad(attn_mask, sinks)
        wants_gradient = of_more or _any_requires_grad(q, k, v)
        if softmax_mode.lower() not in ("none", "fp32"):
            without_effect(f"softmax_mode={softmax_mode!r}", "there is one form of the softmax")
        for name, wanted in (
            ("return_attn_probs", return_attn_probs),
            ("return_dropout_mask", return_dropout_mask),
        ):
            if wanted and wants_gradient:
                raise ValueError(
                    f"FusedSDPA: {name} needs inference; an operand requires a gradient: "
                    "detach it, or call under torch.no_grad()"
                )
        if valid_seq_len is not None and (not is_causal or wants_gradient or attn_mask is not None):
            raise ValueError(
                "FusedSDPA: valid_seq_len needs is_causal, no attn_mask and no gradient"
            )
        q, k, v = autocast(q, k, v)
        scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
        padding = seq_padding_type.lower()
        if return_dropout_mask or return_attn_probs:
            if window is not None or sinks is not None:
                raise ValueError("FusedSDPA: a window or sinks are not for results with weights")
            out, weights, kept = torch.ops.hpu.sdpa_fwd(
                q, k, v, attn_mask, dropout_p, scale, is_causal, "none", valid_seq_len, padding
            )
            return (out, *[weights] * return_attn_probs, *[kept] * return_dropout_mask)
        if dropout_p > 0 or of_more or (sinks is not None and wants_gradient):
            if attn_mask is not None or sinks is not None or window or valid_seq_len is not None:
                # PyTorch's attention takes either is_causal or a mask.
                hidden = hidden_keys(q, k, is_causal, valid_seq_len, padding, window)
                attn_mask, is_causal = _mask_of_both(attn_mask, hidden, q.dtype), False
            return _composed(q, k, v, attn_mask, dropout_p, is_causal, scale, sinks)
        return torch.ops.hpu.sdpa_recomp_fwd(
            q, k, v, attn_mask, 0.0, scale, is_causal, wants_gradient, "none", valid_seq_len,
            padding, window, sinks,
        )[0]  # fmt: skip


def _any_requires_grad(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _mask_of_both(mask: Tensor | None, hidden: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The mask, in dtype if it is additive, which also hides the keys `hidden`."""
    if mask is None:
        return None if hidden is None else ~hidden
    if mask.dtype == torch.bool:
        return mask if hidden is None else mask & ~hidden
    mask = mask.to(dtype)
    return mask if hidden is None else mask.masked_fill(hidden, -math.inf)


def _composed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    sinks: Tensor | None,
) -> Tensor:
    """Attention with dropout, or with a gradient of the mask or of sinks, by PyTorch's
    operators. With sinks, is_causal is part of the mask."""
    grouped = k.shape[-3] != q.shape[-3]
    if sinks is None:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, mask, dropout_p, is_causal, scale=scale, enable_gqa=grouped
        )
    if grouped:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT * scale
    if mask is not None:
        seen = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -math.inf) if seen else scores + mask
    column = sinks.reshape(*q.shape[1:-2], 1, 1).to(scores.dtype).expand(*scores.shape[:-1], 1)
    weights = torch.cat((scores, column), -1).softmax(-1)[..., :-1]
    return torch.dropout(weights, dropout_p, True) @ v if dropout_p else weights @ v
