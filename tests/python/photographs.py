"""Photographs that ship in packages, and images made from them."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import skimage
import sklearn

BILINEAR = PIL.Image.Resampling.BILINEAR
Stage = tuple[int, ...]


def photograph_paths() -> list[Path]:
    """Five JPEG files, 4:4:4 and 4:2:0, of 640 x 427 to 1411 x 1411 pixels."""
    first = Path(sklearn.__file__).parent / "datasets/images"
    second = Path(skimage.__file__).parent / "data"
    names = ("hubble_deep_field", "retina", "rocket")
    return [first / "china.jpg", first / "flower.jpg", *(second / f"{n}.jpg" for n in names)]


def read_rgb(data: bytes) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(data)).convert("RGB")


@functools.cache
def small_photograph() -> PIL.Image.Image:
    return PIL.Image.open(photograph_paths()[0]).convert("RGB").crop((100, 50, 337, 221))


def jpeg_of(image: PIL.Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()


def run_with_pillow(image: PIL.Image.Image, plan: tuple[bool, list[Stage]]) -> np.ndarray:
    """Runs a plan of habana_dataloader.geometry by Pillow's own calls."""
    flip, stages = plan
    for x, y, width, height, new_width, new_height, left, top, columns, rows in stages:
        image = image.crop((x, y, x + width, y + height))
        image = image.resize((new_width, new_height), BILINEAR)
        image = image.crop((left, top, left + columns, top + rows))
    if flip:
        image = image.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(image)
