"""Attention under the name that Gaudi scripts use."""

from __future__ import annotations

import torch
from torch import Tensor


class FusedSDPA:
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
    ) -> Tensor:
        """Computes torch.nn.functional.scaled_dot_product_attention; keys and values may have fewer
        heads (dimension 1). softmax_mode and recompute_mode have no effect. Raises ValueError for
        valid_seq_len."""
        if valid_seq_len is not None:
            raise ValueError("FusedSDPA: valid_seq_len is not supported; pass attn_mask")
        grouped = q.dim() == 4 and k.shape[1] != q.shape[1]
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=grouped
        )
