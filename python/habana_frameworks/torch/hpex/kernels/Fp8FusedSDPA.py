"""Attention of floats of 8 bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .FusedSDPA import gqa_input_reshape_bwd as gqa_input_reshape_bwd
from .FusedSDPA import gqa_input_reshape_fwd as gqa_input_reshape_fwd
from .FusedSDPA import gqa_output_reshape as gqa_output_reshape
from .FusedSDPA import is_gqa as is_gqa

Scale = Tensor | float | None


def _tensor(scale: Scale, like: Tensor) -> Tensor | None:
    if scale is None or isinstance(scale, Tensor):
        return scale
    return torch.full((), scale, device=like.device)


def fp8_fused_sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    softmax_mode: str = "None",
    d_scale_q: Scale = None,
    d_scale_k: Scale = None,
    d_scale_v: Scale = None,
    q_scale_s: Scale = None,
    q_scale_o: Scale = None,
    d_scale_s: Scale = None,
    is_amax_s: bool = False,
    is_amax_o: bool = False,
    valid_seq_len: Tensor | None = None,
    seq_padding_type: str = "left",
    recompute: bool | None = None,
    window_size: Sequence[int] | None = None,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result (e4m3 with q_scale_o, else bf16), the largest weight and the largest element of
    the result, which are 0 where they are not asked for. d_scale_*: what turns an operand into its
    values. The weights stay wide, so that q_scale_s and d_scale_s cancel out; recompute has no
    effect."""
    scales = (d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s)
    if dropout_p != 0:
        raise ValueError("fp8_fused_sdpa: dropout_p is not 0; use FusedSDPA.apply for dropout")
    out, _, _, _, amax_s, amax_o = torch.ops.hpu.fp8_sdpa_recomp_fwd(
        q, k, v, attn_mask, 0.0, 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale,
        is_causal, False, "none", *(_tensor(s, q) for s in scales), is_amax_s, is_amax_o,
        valid_seq_len, seq_padding_type.lower(),
        None if window_size is None else list(window_size), sinks,
    )  # fmt: skip
    return out, amax_s, amax_o


class Fp8FusedSDPA:
    apply = staticmethod(fp8_fused_sdpa)
