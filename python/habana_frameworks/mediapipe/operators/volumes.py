"""Random crops of volumes and their labels."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..pipeline.operator import REQUIRED, Operator
from ..pipeline.run import Run, Views, Waits
from .windows import Window, views_of, window_at

# How many parts of a label a crop may be made for: its largest ones.
_PARTS = 2


class RandomBiasedCrop(Operator):
    """One random window for a volume [batch, channels, depth, height, width] and its labels, and
    [batch, 6] of INT32: begin and end of the window in depth, height and width. With the
    probability `over_sampling` a window contains one of the two largest connected parts of a
    random label, or lies within it where the part is larger than the window."""

    ARGUMENTS = {
        "patch_size": REQUIRED,
        "over_sampling": 0.0,
        "seed": None,
        "num_workers": 1,
        "cache_bboxes": False,
    }
    INPUTS = (2, 2)
    OUTPUTS = 3
    TAKES_PENDING = True

    def check(self) -> None:
        given = self.arguments
        if len(given.patch_size) != 3:
            raise ValueError(f"{self.title}(patch_size) must be [width, height, depth]")
        if not 0 <= given.over_sampling <= 1:
            raise ValueError(
                f"{self.title}(over_sampling) must be from 0 to 1 and is {given.over_sampling}"
            )
        sizes = tuple(int(size) for size in given.patch_size[::-1])
        self._window = Window(self.title, sizes, (0.0,) * 3)
        self._seed = secrets.randbits(31) if given.seed is None else given.seed

    def evaluate(self, run: Run, *inputs: Any) -> Waits[tuple[Any, ...]]:
        images, labels = (views_of(self, value, axes=5).arrays for value in inputs)
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            if image.shape[1:] != label.shape[1:] or label.dtype != np.uint8:
                raise ValueError(
                    f"{self.title} needs labels of UINT8 and of the size of the volume, and sample "
                    f"{number} has {image.shape} and {label.dtype} {label.shape}"
                )
        draw = run.generator(self._seed)
        biased = np.nonzero(draw.random(len(images)) < self.arguments.over_sampling)[0]
        found: dict[int, list[tuple[int, list[list[int]]]]] = {}
        if len(biased):
            search = run.loader.find_blobs([labels[i][0] for i in biased], _PARTS)
            yield search
            found = dict(zip(biased.tolist(), search.result(), strict=True))
        starts = [
            self._start(draw, image.shape[1:], found.get(i, [])) for i, image in enumerate(images)
        ]
        sizes = self._window.sizes
        edges = [
            [edge for s, n in zip(start, sizes, strict=True) for edge in (s, s + n)]
            for start in starts
        ]
        cut = [
            Views([window_at(a, s, sizes) for a, s in zip(arrays, starts, strict=True)])
            for arrays in (images, labels)
        ]
        return (*cut, torch.tensor(edges, dtype=torch.int32))

    def _start(
        self,
        draw: np.random.Generator,
        shape: Sequence[int],
        blobs: list[tuple[int, list[list[int]]]],
    ) -> tuple[int, ...]:
        """The first element of a window in each axis."""
        self._window.of(*shape)
        part = [0] * 6
        if blobs:
            _, parts = blobs[draw.integers(len(blobs))]
            part = parts[draw.integers(len(parts))]
        start = []
        for axis, (there, size) in enumerate(zip(shape, self._window.sizes, strict=True)):
            begin, end = part[2 * axis : 2 * axis + 2]
            low, high = 0, there - size
            if blobs:
                # From the first to the last window that contains the part or lies within it.
                low, high = sorted((max(0, end - size), min(begin, there - size)))
            start.append(int(draw.integers(low, high + 1)))
        return tuple(start)
