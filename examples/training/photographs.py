#!/usr/bin/env python3
"""ResNet-18 learns which photograph a piece is of, on hpu and in CPU eager side by side.

Eight colour photographs come with scikit-image; pieces of 64 x 64 pixels are cut from the left
three quarters of each to learn from, and from the right quarter to see what was learned. The losses
of the two devices diverge after some steps, because batch norm over few pieces and Adam's first
steps amplify the differences in rounding.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import skimage.data
import torch
import torch.nn.functional as F
from side_by_side import train_side_by_side
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

PHOTOGRAPHS = (
    "astronaut",
    "cat",
    "coffee",
    "hubble_deep_field",
    "immunohistochemistry",
    "motorcycle",
    "retina",
    "rocket",
)
SIZE = 64  # pixels of a piece's side
LEARNED = 0.75  # share of a photograph's width


class Classifier(nn.Module):
    """ResNet-18 (He et al. 2015) and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.resnet = ResNetForImageClassification(
            ResNetConfig(
                depths=[2, 2, 2, 2],
                hidden_sizes=[64, 128, 256, 512],
                layer_type="basic",
                num_labels=len(PHOTOGRAPHS),
            )
        )

    def forward(self, pieces: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.resnet(pieces).logits, labels)


def photograph(name: str) -> torch.Tensor:
    """The photograph as [3, height, width] with values from -1 to 1."""
    if name == "motorcycle":
        pixels: Any = skimage.data.stereo_motorcycle()[0]
    else:
        pixels = getattr(skimage.data, name)()
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 127.5 - 1


def cut(
    photographs: list[torch.Tensor], count: int, seed: int, learned: bool
) -> dict[str, torch.Tensor]:
    """`count` pieces [count, 3, SIZE, SIZE] and the numbers of their photographs."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    labels = torch.randint(len(photographs), (count,), generator=generator)
    pieces = []
    for label in labels.tolist():
        pixels = photographs[label]
        edge = int(pixels.shape[2] * LEARNED)
        left = draw(0, edge - SIZE) if learned else draw(edge, pixels.shape[2] - SIZE + 1)
        top = draw(0, pixels.shape[1] - SIZE + 1)
        pieces.append(pixels[:, top : top + SIZE, left : left + SIZE])
    return {"pieces": torch.stack(pieces), "labels": labels}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--folder", type=Path, default=Path(), help="for loss.svg, checkpoints")
    args = parser.parse_args()

    photographs = [photograph(name) for name in PHOTOGRAPHS]
    torch.manual_seed(0)
    trained = train_side_by_side(
        Classifier(), lambda step: cut(photographs, args.batch, step, True), args.steps, args.folder
    )
    held_out = cut(photographs, 256, 1_000_000, False)
    for device, model in trained.items():
        with torch.no_grad():
            logits = model.resnet(held_out["pieces"].to(device)).logits.cpu()
        right = (logits.argmax(1) == held_out["labels"]).float().mean().item()
        print(f"{device}: {right:.1%} of 256 held-out pieces are recognised")


if __name__ == "__main__":
    main()
