"""Gaudi's kernels as functions and classes, in modules of the names that scripts import."""

from __future__ import annotations

from . import EmbeddingBag, EmbeddingBagPreproc
from .CTCLoss import CTCLoss
from .CustomSoftmax import CustomSoftmax
from .Fp8FusedSDPA import Fp8FusedSDPA, fp8_fused_sdpa
from .FusedSDPA import FusedSDPA, gqa_output_reshape
from .PySDPA import PySDPA, PySDPAHinted
from .RotaryPosEmbeddingHelper import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
    RotaryPosEmbeddingMode,
    apply_rotary_pos_emb,
)

EmbeddingBagPreProc = EmbeddingBagPreproc

__all__ = [
    "CTCLoss",
    "CustomSoftmax",
    "EmbeddingBag",
    "EmbeddingBagPreProc",
    "EmbeddingBagPreproc",
    "Fp8FusedSDPA",
    "FusedSDPA",
    "PySDPA",
    "PySDPAHinted",
    "RotaryPosEmbeddingHelperV1",
    "RotaryPosEmbeddingHelperV2",
    "RotaryPosEmbeddingHelperV3",
    "RotaryPosEmbeddingMode",
    "apply_rotary_pos_emb",
    "fp8_fused_sdpa",
    "gqa_output_reshape",
]
