"""The operations of SSD on the boxes of photographs: windows that keep enough of them, flips, and
their encoding by anchors. Boxes are left, top, right and bottom, as shares of the image."""

from __future__ import annotations

import functools
import itertools
import math
import secrets

import numpy as np
import torch

from ..pipeline.operator import Operator
from ..pipeline.run import Run

MOST_BOXES = 200  # of an image
# The least overlap that a window must have with each box that stays; None takes the whole image,
# and 0 any window.
_LEAST_OVERLAPS = (None, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
_TRIES = 50  # windows for each choice of the overlap
_MOST_CHOICES = 100


def overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """[boxes, others]: intersection over union."""
    first = np.maximum(boxes[:, None, :2], others[None, :, :2])
    last = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = np.prod(np.clip(last - first, 0, None), axis=2)
    areas = [np.prod(b[:, 2:] - b[:, :2], axis=1) for b in (boxes, others)]
    whole = areas[0][:, None] + areas[1][None] - shared
    return np.asarray(shared / np.maximum(whole, 1e-12))


class SSDCropWindowGen(Operator):
    """Sizes, boxes, labels, lengths and windows [batch, 4] of FLOAT32: x, y, width and height as
    shares of the image. A window is a random one whose aspect is from a half to two and which
    overlaps enough with each box; the boxes whose centre it contains stay, cut to it, in shares of
    the window. Sizes stay those of the whole images."""

    ARGUMENTS = {"num_iterations": 1, "seed": None, "min_width": 0.3, "min_height": 0.3}
    INPUTS = (4, 4)
    OUTPUTS = 5

    def check(self) -> None:
        given = self.arguments
        if given.num_iterations < 1 or not 0 < min(given.min_width, given.min_height) <= 1:
            raise ValueError(
                f"{self.title} needs num_iterations of at least 1, and min_width and min_height "
                "above 0 and up to 1"
            )
        self._seed = secrets.randbits(31) if given.seed is None else given.seed

    def compute(self, run: Run, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        sizes, *given = inputs
        boxes, labels, lengths = (value.numpy() for value in given)
        new_boxes, new_labels = np.zeros_like(boxes), np.zeros_like(labels)
        new_lengths = np.zeros_like(lengths)
        windows = np.zeros((len(boxes), 4), np.float32)
        draw = run.generator(self._seed)
        for i, length in enumerate(lengths):
            window, kept = self._window(draw, boxes[i, :length])
            count = len(kept)
            new_boxes[i, :count] = _within(boxes[i, kept], window)
            new_labels[i, :count] = labels[i, kept]
            new_lengths[i] = count
            windows[i] = [*window[:2], *(window[2:] - window[:2])]
        results = (new_boxes, new_labels, new_lengths, windows)
        return (sizes, *map(torch.from_numpy, results))

    def _window(
        self, draw: np.random.Generator, boxes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Corners of a window, and the numbers of the boxes that stay."""
        everything = np.array([0, 0, 1, 1], np.float32)
        for _ in range(_MOST_CHOICES):
            least = _LEAST_OVERLAPS[draw.integers(len(_LEAST_OVERLAPS))]
            if least is None:
                break
            for _ in range(_TRIES * self.arguments.num_iterations):
                width = draw.uniform(self.arguments.min_width, 1)
                height = draw.uniform(self.arguments.min_height, 1)
                if not 0.5 <= width / height <= 2:
                    continue
                x, y = draw.uniform(0, 1 - width), draw.uniform(0, 1 - height)
                window = np.array([x, y, x + width, y + height], np.float32)
                if len(boxes) and overlaps(boxes, window[None]).min() < least:
                    continue
                centers = (boxes[:, :2] + boxes[:, 2:]) / 2
                inside = ((centers > window[:2]) & (centers < window[2:])).all(1)
                if inside.any():
                    return window, np.nonzero(inside)[0]
        return everything, np.arange(len(boxes))


def _within(boxes: np.ndarray, window: np.ndarray) -> np.ndarray:
    cut = np.concatenate(
        [np.maximum(boxes[:, :2], window[:2]), np.minimum(boxes[:, 2:], window[2:])], axis=1
    )
    return np.asarray((cut - np.tile(window[:2], 2)) / np.tile(window[2:] - window[:2], 2))


class SSDBBoxFlip(Operator):
    """Boxes of the images whose element of the first input is not 0 from left to right."""

    INPUTS = (3, 3)

    def compute(self, run: Run, *inputs: torch.Tensor) -> torch.Tensor:
        flips, given, lengths = (value.numpy() for value in inputs)
        boxes = given.copy()
        for i, length in enumerate(lengths):
            if flips.reshape(-1)[i]:
                boxes[i, :length, [0, 2]] = 1 - given[i, :length, [2, 0]]
        return torch.from_numpy(boxes)


# The anchors of SSD300, as its paper and MLPerf's reference have them: for each map of features its
# side, the step of its cells and the sides of its anchors in pixels, and their aspects.
_IMAGE = 300
_MAPS = (
    (38, 8, 21, 45, (2,)),
    (19, 16, 45, 99, (2, 3)),
    (10, 32, 99, 153, (2, 3)),
    (5, 64, 153, 207, (2, 3)),
    (3, 100, 207, 261, (2,)),
    (1, 300, 261, 315, (2,)),
)
_CENTER_SCALE, _SIZE_SCALE = 0.1, 0.2
_LEAST_MATCH = 0.5


@functools.cache
def anchors() -> np.ndarray:
    """[8732, 4] of float32: centre, width and height, as shares of the image."""
    found = []
    for side, step, small, large, aspects in _MAPS:
        plain, wide = small / _IMAGE, math.sqrt(small * large) / _IMAGE
        shapes = [(plain, plain), (wide, wide)]
        for aspect in aspects:
            root = math.sqrt(aspect)
            shapes += [(plain * root, plain / root), (plain / root, plain * root)]
        cells = _IMAGE / step
        for width, height in shapes:
            for row, column in itertools.product(range(side), repeat=2):
                found.append(((column + 0.5) / cells, (row + 0.5) / cells, width, height))
    return np.clip(np.array(found, np.float32), 0, 1)


class SSDEncode(Operator):
    """Boxes [batch, 8732, 4] of FLOAT32: for each anchor the centre, width and height of its box
    relative to the anchor, scaled by 10 and 5 (of the sizes the logarithm); and labels
    [batch, 8732], 0 where an anchor has no box. An anchor has the box with which it overlaps most,
    if that is more than a half, and each box has its best anchor."""

    INPUTS = (3, 3)
    OUTPUTS = 2

    def compute(self, run: Run, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        boxes, labels, lengths = (value.numpy() for value in inputs)
        centered = anchors()
        half = centered[:, 2:] / 2
        corners = np.concatenate([centered[:, :2] - half, centered[:, :2] + half], axis=1)
        new_boxes = np.zeros((len(boxes), len(centered), 4), np.float32)
        new_labels = np.zeros((len(boxes), len(centered)), labels.dtype)
        for i, length in enumerate(lengths):
            taken = corners.copy()
            if length:
                shared = overlaps(boxes[i, :length], corners)
                best = shared.argmax(0)
                amount = shared.max(0)
                own = shared.argmax(1)
                best[own] = np.arange(length)
                amount[own] = 2.0
                matched = amount > _LEAST_MATCH
                taken[matched] = boxes[i, best[matched]]
                new_labels[i, matched] = labels[i, best[matched]]
            center = (taken[:, :2] + taken[:, 2:]) / 2
            size = taken[:, 2:] - taken[:, :2]
            new_boxes[i, :, :2] = (center - centered[:, :2]) / centered[:, 2:] / _CENTER_SCALE
            new_boxes[i, :, 2:] = np.log(size / centered[:, 2:]) / _SIZE_SCALE
        return torch.from_numpy(new_boxes), torch.from_numpy(new_labels)
