"""The part of torchvision that a data loader sees, where torchvision itself is not installed.

The transforms draw from torch's generator what torchvision's draw, in the same order, and use the
same calls of Pillow.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import torch

BILINEAR = "bilinear"


def pil_loader(path: str) -> PIL.Image.Image:
    with open(path, "rb") as file:
        return PIL.Image.open(file).convert("RGB")


class ImageFolder:
    def __init__(self, root: str | Path, transform: Any = None, target_transform: Any = None):
        self.transform = transform
        self.target_transform = target_transform
        self.loader = pil_loader
        folders = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.samples = [
            (str(file), number)
            for number, folder in enumerate(folders)
            for file in sorted((Path(root) / folder).iterdir())
        ]

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        return self.transform(self.loader(path)), target

    def __len__(self) -> int:
        return len(self.samples)


class Compose:
    def __init__(self, transforms: list[Any]):
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


def pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


class RandomResizedCrop:
    def __init__(self, size: Any, interpolation: str = BILINEAR):
        self.size = pair(size)
        self.scale = (0.08, 1.0)
        self.ratio = (3 / 4, 4 / 3)
        self.interpolation = interpolation

    def __call__(self, image: PIL.Image.Image) -> PIL.Image.Image:
        x, y, width, height = self.box(*image.size)
        image = image.crop((x, y, x + width, y + height))
        return image.resize((self.size[1], self.size[0]), PIL.Image.Resampling.BILINEAR)

    def box(self, width: int, height: int) -> tuple[int, int, int, int]:
        low, high = torch.log(torch.tensor(self.ratio))
        for _ in range(10):
            target = width * height * torch.empty(1).uniform_(*self.scale).item()
            aspect = torch.exp(torch.empty(1).uniform_(low, high)).item()
            w = round(math.sqrt(target * aspect))
            h = round(math.sqrt(target / aspect))
            if 0 < w <= width and 0 < h <= height:
                top = torch.randint(0, height - h + 1, size=(1,)).item()
                return int(torch.randint(0, width - w + 1, size=(1,)).item()), int(top), w, h
        w, h = width, height
        if width / height < self.ratio[0]:
            h = round(width / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(height * self.ratio[1])
        return (width - w) // 2, (height - h) // 2, w, h


class Resize:
    def __init__(self, size: Any, interpolation: str = BILINEAR, max_size: int | None = None):
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size

    def __call__(self, image: PIL.Image.Image) -> PIL.Image.Image:
        width, height = image.size
        if not isinstance(self.size, int):
            height, width = self.size
        elif width <= height:
            width, height = self.size, int(self.size * height / width)
        else:
            width, height = int(self.size * width / height), self.size
        if (width, height) == image.size:
            return image
        return image.resize((width, height), PIL.Image.Resampling.BILINEAR)


class CenterCrop:
    def __init__(self, size: Any):
        self.size = pair(size)

    def __call__(self, image: PIL.Image.Image) -> PIL.Image.Image:
        height, width = self.size
        padded = PIL.Image.new("RGB", (max(width, image.width), max(height, image.height)))
        at = (max(0, width - image.width) // 2, max(0, height - image.height) // 2)
        padded.paste(image, at)
        left, top = round((padded.width - width) / 2), round((padded.height - height) / 2)
        return padded.crop((left, top, left + width, top + height))


class RandomHorizontalFlip:
    def __init__(self, p: float = 0.5):
        self.p = p

    def __call__(self, image: PIL.Image.Image) -> PIL.Image.Image:
        if torch.rand(1) < self.p:
            return image.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
        return image


class ToTensor:
    def __call__(self, image: PIL.Image.Image) -> torch.Tensor:
        pixels = torch.from_numpy(np.array(image))
        return pixels.permute(2, 0, 1).contiguous().to(torch.get_default_dtype()).div(255)


class Normalize:
    def __init__(self, mean: list[float], std: list[float]):
        self.mean = mean
        self.std = std

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        mean, std = (torch.tensor(value)[:, None, None] for value in (self.mean, self.std))
        return tensor.sub(mean).div(std)


class ColorJitter:
    """Stands for any transform that the guide does not list."""


datasets = SimpleNamespace(
    ImageFolder=ImageFolder,
    folder=SimpleNamespace(default_loader=pil_loader, pil_loader=pil_loader),
)
transforms = SimpleNamespace(
    Compose=Compose,
    RandomResizedCrop=RandomResizedCrop,
    Resize=Resize,
    CenterCrop=CenterCrop,
    RandomHorizontalFlip=RandomHorizontalFlip,
    ToTensor=ToTensor,
    Normalize=Normalize,
    ColorJitter=ColorJitter,
    InterpolationMode=SimpleNamespace(BILINEAR=BILINEAR, BICUBIC="bicubic"),
)


def get_image_backend() -> str:
    return "PIL"
