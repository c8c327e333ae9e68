"""Crops and flips of arrays, whose last axes are [depth,] height and width, and of photographs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..media_types import dtype
from ..pipeline.operator import REQUIRED, Operator
from ..pipeline.run import Images, Run, Views, Waits
from .windows import Window, views_of, window_at

_TYPES = (dtype.UINT8, dtype.INT8, dtype.UINT16, dtype.INT16, dtype.FLOAT32)


def _arrays(operator: Operator, value: torch.Tensor | Views, axes: int) -> list[np.ndarray]:
    arrays = views_of(operator, value, axes).arrays
    name = operator.arguments.dtype
    if name is not None and arrays[0].dtype != np.dtype(name):
        raise ValueError(
            f"{operator.title}(dtype={name!r}) has an input of {arrays[0].dtype}; give it that "
            "dtype, because it converts nothing"
        )
    return arrays


def _pixels(operator: Operator, run: Run, value: Images) -> Waits[torch.Tensor]:
    if value.interleaved:
        raise NotImplementedError(
            f"{operator.title} is not built for imgtype.RGB_I with these arguments; decode to "
            "imgtype.RGB_P"
        )
    return (yield from value.result(run))


class _WindowOperator(Operator):
    TAKES_PENDING = True

    def evaluate(self, run: Run, *inputs: Any) -> Waits[tuple[Images | Views]]:
        (value,) = inputs
        window = self.window()
        axes = len(window.sizes)
        if isinstance(value, Images):
            if axes == 2:
                images = value.copy()
                for frame in images.frames:
                    (y, x), (height, width) = window.of(frame.height, frame.width)
                    frame.cut(x, y, width, height)
                return (images,)
            value = yield from _pixels(self, run, value)
        arrays = _arrays(self, value, axes + 1)
        return (Views([window_at(a, *window.of(*a.shape[a.ndim - axes :])) for a in arrays]),)

    def window(self) -> Window:
        raise NotImplementedError


class Crop(_WindowOperator):
    ARGUMENTS = {
        "crop_w": REQUIRED,
        "crop_h": REQUIRED,
        "crop_d": 0,
        "crop_pos_x": 0.0,
        "crop_pos_y": 0.0,
        "crop_pos_z": 0.0,
        "dtype": None,
    }
    CHOICES = {"dtype": (None, *_TYPES)}

    def check(self) -> None:
        self.window()

    def window(self) -> Window:
        given = self.arguments
        sizes = (given.crop_d, given.crop_h, given.crop_w)
        positions = (given.crop_pos_z, given.crop_pos_y, given.crop_pos_x)
        axes = 3 if given.crop_d else 2
        return Window(self.title, sizes[-axes:], positions[-axes:])


class BasicCrop(_WindowOperator):
    """A window of volumes, of [width, height, depth], at their beginning or in their middle."""

    ARGUMENTS = {
        "patch_size": REQUIRED,
        "num_channels": 1,
        "center_crop": False,
        "dtype": None,
    }
    CHOICES = {"dtype": (None, dtype.UINT8, dtype.FLOAT32)}

    def check(self) -> None:
        if len(self.arguments.patch_size) != 3:
            raise ValueError(f"{self.title}(patch_size) must be [width, height, depth]")
        self.window()

    def window(self) -> Window:
        given = self.arguments
        sizes = tuple(int(size) for size in given.patch_size[::-1])
        return Window(self.title, sizes, (0.5 if given.center_crop else 0.0,) * 3)


_DIRECTIONS = {"horizontal": 0, "vertical": 0, "depthwise": 0}


class _FlipOperator(Operator):
    ARGUMENTS = {**_DIRECTIONS, "dtype": None}
    CHOICES = {**dict.fromkeys(_DIRECTIONS, (0, 1)), "dtype": (None, *_TYPES)}
    TAKES_PENDING = True

    def flip(self, run: Run, value: Any, chosen: np.ndarray) -> Waits[tuple[Images | Views]]:
        given = self.arguments
        if isinstance(value, Images):
            if not given.vertical and not given.depthwise:
                images = value.copy()
                for frame, flips in zip(images.frames, chosen, strict=True):
                    if flips and given.horizontal:
                        frame.flip()
                return (images,)
            value = yield from _pixels(self, run, value)
        arrays = _arrays(self, value, 4 if given.depthwise else 3)
        flags = (given.depthwise, given.vertical, given.horizontal)
        turned = tuple(np.s_[::-1] if flag else np.s_[:] for flag in flags[-arrays[0].ndim :])
        pairs = zip(arrays, chosen, strict=True)
        return (Views([array[(..., *turned)] if flips else array for array, flips in pairs]),)


class RandomFlip(_FlipOperator):
    """Flips the images whose element of the second input is not 0."""

    INPUTS = (2, 2)

    def evaluate(self, run: Run, *inputs: Any) -> Waits[tuple[Images | Views]]:
        value, predicate = inputs
        if predicate.numel() != run.batch_size:
            raise ValueError(
                f"the predicate of {self.title} must have {run.batch_size} elements and has "
                f"{predicate.numel()}"
            )
        return (yield from self.flip(run, value, predicate.reshape(-1).numpy()))


class Flip(_FlipOperator):
    """Flips all images."""

    def evaluate(self, run: Run, *inputs: Any) -> Waits[tuple[Images | Views]]:
        (value,) = inputs
        return (yield from self.flip(run, value, np.ones(run.batch_size)))
