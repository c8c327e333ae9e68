"""Decomposition of the margin loss of several labels. PyTorch's own decomposition is wrong: it
takes targets after the first -1 for labels, and -1 itself for the last class."""

from __future__ import annotations

import torch


def multilabel_margin_loss_forward(
    self: torch.Tensor, target: torch.Tensor, reduction: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """sum over labels l and other classes c of max(0, 1 - (x[l] - x[c])) / classes.

    self: [classes] or [batch, classes]; target: labels of the same sizes, which end at the first
    -1. The second result marks the labels' classes, in self's type.
    """
    classes = self.shape[-1] if self.dim() > 0 else 1
    if self.dim() == 0 or self.numel() == 0 or target.shape != self.shape:
        raise NotImplementedError
    place = torch.arange(classes, device=target.device)
    end = torch.where(target < 0, place, classes).amin(-1, keepdim=True)
    is_label = place < end
    label = torch.where(is_label, target, 0)
    hits = (label.unsqueeze(-1) == place) & is_label.unsqueeze(-1)
    is_target = hits.any(-2)
    margin = (1 - self.gather(-1, label).unsqueeze(-1) + self.unsqueeze(-2)).clamp_min(0)
    counts = is_label.unsqueeze(-1) & ~is_target.unsqueeze(-2)
    loss = torch.where(counts, margin, 0).sum((-2, -1)) / classes
    if reduction == 1:
        loss = loss.mean()
    elif reduction == 2:
        loss = loss.sum()
    return loss.to(self.dtype), is_target.to(self.dtype)
