"""The model that encoder.yaml warms up: a small text encoder with made-up weights."""

from __future__ import annotations

import torch
from torch import nn


class Encoder(nn.Module):
    """[batch, sequence] token ids and their mask -> [batch, width] embeddings."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layer = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(input_ids)
        hidden = self.norm(hidden + self.layer(hidden))
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)


def make(vocabulary: int = 1000, width: int = 64) -> Encoder:
    torch.manual_seed(0)
    return Encoder(vocabulary, width)
