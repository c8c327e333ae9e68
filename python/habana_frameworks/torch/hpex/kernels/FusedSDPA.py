"""Attention under the name that Gaudi scripts use, and the reshapes of attention in groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...internal.notices import without_effect


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
        wants_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        if softmax_mode.lower() not in ("none", "fp32"):
            without_effect(f"softmax_mode={softmax_mode!r}", "there is one form of the softmax")
        if return_attn_probs and wants_gradient:
            raise ValueError(
                "FusedSDPA: return_attn_probs needs inference; q, k or v requires a gradient"
            )
        if valid_seq_len is not None and (not is_causal or wants_gradient or attn_mask is not None):
            raise ValueError(
                "FusedSDPA: valid_seq_len needs is_causal, no attn_mask and no gradient"
            )
        q, k, v = autocast(q, k, v)
        scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
        padding = seq_padding_type.lower()
        if return_dropout_mask or return_attn_probs:
            if window_size not in (None, (-1, -1)) or sinks is not None:
                raise ValueError("FusedSDPA: a window or sinks are not for results with weights")
            out, weights, kept = torch.ops.hpu.sdpa_fwd(
                q, k, v, attn_mask, dropout_p, scale, is_causal, "none", valid_seq_len, padding
            )
            return (out, *[weights] * return_attn_probs, *[kept] * return_dropout_mask)
        if dropout_p > 0 or (sinks is not None and wants_gradient):
            return _composed(
                q, k, v, attn_mask, dropout_p, is_causal, scale, valid_seq_len, window_size, sinks
            )
        window = None if window_size is None else list(window_size)
        return torch.ops.hpu.sdpa_recomp_fwd(
            q, k, v, attn_mask, 0.0, scale, is_causal, wants_gradient, "none", valid_seq_len,
            padding, window, sinks,
        )[0]  # fmt: skip


def _composed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    valid_seq_len: Tensor | None,
    window_size: Sequence[int] | None,
    sinks: Tensor | None,
) -> Tensor:
    """Attention with dropout, or with a gradient of sinks, by PyTorch's operators."""
    if window_size not in (None, (-1, -1)) or valid_seq_len is not None:
        raise ValueError(
            "FusedSDPA: dropout, or sinks with a gradient, beside window_size or valid_seq_len: "
            "pass attn_mask instead"
        )
    grouped = k.shape[-3] != q.shape[-3]
    if sinks is None:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, mask, dropout_p, is_causal, scale=scale, enable_gqa=grouped
        )
    if grouped:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT * scale
    if is_causal:
        places = [torch.arange(n, device=q.device) for n in scores.shape[-2:]]
        scores = scores.masked_fill(places[1] > places[0].unsqueeze(-1), -math.inf)
    if mask is not None:
        seen = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -math.inf) if seen else scores + mask
    column = sinks.reshape(*q.shape[1:-2], 1, 1).to(scores.dtype).expand(*scores.shape[:-1], 1)
    weights = torch.cat((scores, column), -1).softmax(-1)[..., :-1]
    return torch.dropout(weights, dropout_p, True) @ v if dropout_p else weights @ v
