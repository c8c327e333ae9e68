"""Operators on photographs: windows, decoding, colours and normalisation.

An image is decoded when all is known of it, so a crop, a flip and a normalisation behind the
decoder are steps of one pass over its pixels (data_loader/transform.h).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from habana_dataloader.geometry import Draws, Frame, log_ratios, random_box

from ..media_types import decoderStage, dtype, ftype, imgtype, randomCropType
from ..pipeline.operator import REQUIRED, Operator
from ..pipeline.run import ImageFiles, Images, Run, Views, Waits, torch_dtype
from .windows import Window, views_of, window_at

_FILTERS = {
    ftype.BI_LINEAR: "bilinear",
    ftype.BICUBIC: "bicubic",
    ftype.LANCZOS: "lanczos",
    ftype.BOX: "box",
    ftype.NEAREST: "nearest",
}
_RANDOM_CROP = {
    "seed": None,
    "scale_min": 0.08,
    "scale_max": 1.0,
    "ratio_min": 3 / 4,
    "ratio_max": 4 / 3,
}


def _central_box(frame: Frame, width: int, height: int) -> tuple[int, int, int, int]:
    """The largest box in the middle that has the aspect of width x height."""
    scale = min(frame.width / width, frame.height / height)
    w = min(frame.width, max(1, round(width * scale)))
    h = min(frame.height, max(1, round(height * scale)))
    return (frame.width - w) // 2, (frame.height - h) // 2, w, h


class _Crops:
    """The windows of one operator, image by image."""

    def __init__(self, operator: Operator, kind: int, width: int, height: int) -> None:
        given = operator.arguments
        self._kind = kind
        self._size = (width, height)
        self._scale = (given.scale_min, given.scale_max)
        self._ratio = (given.ratio_min, given.ratio_max)
        for low, high in (self._scale, self._ratio):
            if not 0 < low <= high:
                raise ValueError(
                    f"{operator.title} needs 0 < scale_min <= scale_max and 0 < ratio_min <= "
                    f"ratio_max, and they are {self._scale} and {self._ratio}"
                )
        self._seed = secrets.randbits(31) if given.seed is None else given.seed

    def boxes(self, run: Run, frames: Sequence[Frame]) -> list[tuple[int, int, int, int]]:
        if self._kind == randomCropType.CENTER_CROP:
            return [_central_box(frame, *self._size) for frame in frames]
        draws = Draws(int(run.generator(self._seed).integers(1 << 31)))
        logs = log_ratios(self._ratio)
        return [random_box(frame, draws, self._scale, self._ratio, *logs) for frame in frames]


class CropWindowGen(Operator):
    """[batch, 4] of INT32: x, y, width and height of a window of each image, in its pixels."""

    ARGUMENTS = {
        "resize_width": REQUIRED,
        "resize_height": REQUIRED,
        "type": randomCropType.RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP,
        **_RANDOM_CROP,
    }
    CHOICES = {
        "type": (
            randomCropType.RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP,
            randomCropType.CENTER_CROP,
        ),
    }

    def check(self) -> None:
        given = self.arguments
        self._crops = _Crops(self, given.type, given.resize_width, given.resize_height)

    def evaluate(self, run: Run, *inputs: Any) -> Waits[tuple[torch.Tensor]]:
        (files,) = inputs
        sizes = yield from _files(self, files).sizes()
        boxes = self._crops.boxes(run, [Frame(*size) for size in sizes])
        return (torch.tensor(boxes, dtype=torch.int32),)


def _files(operator: Operator, value: Any) -> ImageFiles:
    if not isinstance(value, ImageFiles):
        raise TypeError(f"the first input of {operator.title} must be the files of a reader")
    return value


class ImageDecoder(Operator):
    """Decodes a window of each image, or the whole of it, and resizes it. A window of whole numbers
    counts in pixels, one of floats in shares of the image."""

    ARGUMENTS = {
        "output_format": imgtype.RGB_I,
        "resize": (0, 0),
        "resampling_mode": ftype.BI_LINEAR,
        "random_crop_type": randomCropType.NO_RANDOM_CROP,
        **_RANDOM_CROP,
        "decoder_stage": decoderStage.ENABLE_ALL_STAGES,
    }
    CHOICES = {
        "output_format": (imgtype.RGB_I, imgtype.RGB_P),
        "resampling_mode": tuple(_FILTERS),
        "random_crop_type": (
            randomCropType.NO_RANDOM_CROP,
            randomCropType.RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP,
            randomCropType.CENTER_CROP,
        ),
        "decoder_stage": (decoderStage.ENABLE_ALL_STAGES,),
    }
    INPUTS = (1, 2)

    def check(self) -> None:
        given = self.arguments
        self._resize = tuple(int(size) for size in given.resize)
        if len(self._resize) != 2 or (min(self._resize) < 1 and any(self._resize)):
            raise ValueError(
                f"{self.title}(resize) must be [width, height] of at least 1, or [0, 0], and is "
                f"{given.resize}"
            )
        self._crops = None
        if given.random_crop_type != randomCropType.NO_RANDOM_CROP:
            if not any(self._resize):
                raise ValueError(f"{self.title} needs resize where random_crop_type is given")
            self._crops = _Crops(self, given.random_crop_type, *self._resize)

    def evaluate(self, run: Run, *inputs: Any) -> Waits[tuple[Images]]:
        files = _files(self, inputs[0]).take(run)
        sizes = yield from files.sizes()
        frames = [Frame(*size) for size in sizes]
        boxes = None
        if len(inputs) == 2:
            boxes = _boxes_of(inputs[1], sizes, files.paths)
        elif self._crops is not None:
            boxes = self._crops.boxes(run, frames)
        for i, frame in enumerate(frames):
            if boxes is not None:
                frame.cut(*boxes[i])
            if any(self._resize):
                frame.resize(*self._resize)
        given = self.arguments
        interleaved = given.output_format == imgtype.RGB_I
        return (Images(files, frames, _FILTERS[given.resampling_mode], interleaved),)


def _boxes_of(
    windows: torch.Tensor, sizes: list[tuple[int, int]], paths: list[str]
) -> list[tuple[int, int, int, int]]:
    if tuple(windows.shape) != (len(sizes), 4):
        raise ValueError(
            f"the windows of fn.ImageDecoder must have the shape {(len(sizes), 4)} in numpy's "
            f"order and have {tuple(windows.shape)}"
        )
    boxes = []
    for row, (width, height), path in zip(windows.tolist(), sizes, paths, strict=True):
        x, y, w, h = row
        if windows.is_floating_point():
            x, w = round(x * width), max(1, round(w * width))
            y, h = round(y * height), max(1, round(h * height))
            # Both roundings may go up.
            x, y = min(x, width - w), min(y, height - h)
        if not (0 <= x < x + w <= width and 0 <= y < y + h <= height):
            raise ValueError(
                f"the window {row} of {path} reaches beyond its {width} x {height} pixels"
            )
        boxes.append((x, y, w, h))
    return boxes


class ColorSpaceConversion(Operator):
    """RGB becomes BGR (mode 1)."""

    ARGUMENTS = {"colorSpaceMode": REQUIRED}
    CHOICES = {"colorSpaceMode": (1,)}
    TAKES_PENDING = True

    def compute(self, run: Run, *inputs: Any) -> tuple[Images | Views]:
        (value,) = inputs
        if isinstance(value, Images):
            images = value.copy()
            images.bgr = not images.bgr
            # The table belongs to the channels of the result.
            images.table = images.table.flip(0)
            return (images,)
        views = views_of(self, value, axes=4)
        if any(array.shape[0] != 3 for array in views.arrays):
            raise ValueError(
                f"{self.title} needs [batch, 3, height, width]; decode to imgtype.RGB_P"
            )
        return (Views([array[::-1] for array in views.arrays]),)


class CropMirrorNorm(Operator):
    """A window of each image, mirrored or not, as (value - mean) * inv_std of its channel."""

    ARGUMENTS = {
        "mirror": 0,
        "crop_w": REQUIRED,
        "crop_h": REQUIRED,
        "crop_d": 0,
        "crop_pos_x": 0.0,
        "crop_pos_y": 0.0,
        "crop_pos_z": 0.0,
        "dtype": dtype.UINT8,
    }
    CHOICES = {
        "dtype": (dtype.UINT8, dtype.FLOAT32, dtype.BFLOAT16),
        "mirror": (0, 1),
        "crop_d": (0,),
    }
    INPUTS = (3, 3)
    TAKES_PENDING = True

    def check(self) -> None:
        given = self.arguments
        self._window = Window(
            self.title, (given.crop_h, given.crop_w), (given.crop_pos_y, given.crop_pos_x)
        )

    def _table(self, mean: torch.Tensor, inv_std: torch.Tensor) -> torch.Tensor:
        if mean.numel() != 3 or inv_std.numel() != 3:
            raise ValueError(f"mean and inv_std of {self.title} must have 3 elements each")
        levels = torch.arange(256, dtype=torch.float32)
        table = (levels - mean.reshape(3, 1)) * inv_std.reshape(3, 1)
        if self.arguments.dtype == dtype.UINT8:
            table = table.round().clamp(0, 255)
        return table.to(torch_dtype(self.arguments.dtype))

    def evaluate(self, run: Run, *inputs: Any) -> Waits[tuple[Any]]:
        value, mean, inv_std = inputs
        table = self._table(mean, inv_std)
        if isinstance(value, Images):
            if value.table.dtype != torch.uint8:
                raise TypeError(f"the images of {self.title} are normalised already")
            images = value.copy()
            for frame in images.frames:
                (y, x), (height, width) = self._window.of(frame.height, frame.width)
                frame.cut(x, y, width, height)
                if self.arguments.mirror:
                    frame.flip()
            images.table = torch.stack([table[c][images.table[c].long()] for c in range(3)])
            return (images,)
        across = np.s_[::-1] if self.arguments.mirror else np.s_[:]
        arrays = []
        for array in views_of(self, value, axes=4).arrays:
            if array.dtype != np.uint8 or array.shape[0] != 3:
                raise ValueError(
                    f"{self.title} is built for UINT8 [batch, 3, height, width] and has "
                    f"{array.dtype} {('batch', *array.shape)}"
                )
            arrays.append(window_at(array, *self._window.of(*array.shape[-2:]))[..., across])
        result = yield from run.copy(arrays, table.dtype, table)
        return (result,)
