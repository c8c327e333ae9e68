"""Makes a plan for `_native` of what torchvision's transforms do to an image of a given size.

A plan is the final flip and a list of stages. A stage cuts a box out of the image, resizes it and
keeps a window of the result: (x, y, width, height) of the box, (width, height) after the resize,
(x, y, width, height) of the window, which is black where it reaches beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

Stage = tuple[int, int, int, int, int, int, int, int, int, int]
Plan = tuple[bool, list[Stage]]
Box = tuple[int, int, int, int]


class Frame:
    """An image on its way through the transforms."""

    def __init__(self, width: int, height: int) -> None:
        self._stages: list[Stage] = []
        self._flipped = False
        self._begin(0, 0, width, height)

    def _begin(self, x: int, y: int, width: int, height: int) -> None:
        self._source: Box = (x, y, width, height)
        self._size = (width, height)
        self._window: Box = (0, 0, width, height)

    @property
    def width(self) -> int:
        return self._window[2]

    @property
    def height(self) -> int:
        return self._window[3]

    def cut(self, left: int, top: int, width: int, height: int) -> None:
        if self._flipped:
            left = self.width - left - width
        self._window = (self._window[0] + left, self._window[1] + top, width, height)

    def resize(self, width: int, height: int) -> None:
        if (width, height) == (self.width, self.height):
            return
        x, y = self._window[:2]
        resized = self._size != self._source[2:]
        padded = min(x, y) < 0 or x + self.width > self._size[0] or y + self.height > self._size[1]
        if resized or padded:
            self._stages.append((*self._source, *self._size, *self._window))
            self._begin(0, 0, self.width, self.height)
        else:
            self._begin(self._source[0] + x, self._source[1] + y, self.width, self.height)
        self._size = (width, height)
        self._window = (0, 0, width, height)

    def flip(self) -> None:
        self._flipped = not self._flipped

    def plan(self) -> Plan:
        return self._flipped, [*self._stages, (*self._source, *self._size, *self._window)]


class Draws:
    """The random numbers of one worker of the native loader, drawn as torchvision's transforms
    draw them there."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._real = torch.empty(1)
        self._whole = torch.empty(1, dtype=torch.int64)

    def uniform(self, low: float, high: float) -> float:
        return self._real.uniform_(low, high, generator=self._generator).item()

    def exponential_of_uniform(self, low: float, high: float) -> float:
        self._real.uniform_(low, high, generator=self._generator)
        return torch.exp(self._real).item()

    def below(self, end: int) -> int:
        return int(self._whole.random_(0, end, generator=self._generator).item())

    def share(self) -> float:
        return torch.rand(1, generator=self._generator).item()


Step = Callable[[Frame, Draws], None]


def random_resized_crop(transform: Any) -> Step:
    height, width = transform.size
    scale, ratio = transform.scale, transform.ratio
    lowest, highest = log_ratios(ratio)

    def step(frame: Frame, draws: Draws) -> None:
        frame.cut(*random_box(frame, draws, scale, ratio, lowest, highest))
        frame.resize(width, height)

    return step


def log_ratios(ratio: Sequence[float]) -> tuple[float, float]:
    lowest, highest = torch.log(torch.tensor(ratio)).tolist()
    return lowest, highest


def random_box(
    frame: Frame,
    draws: Draws,
    scale: Sequence[float],
    ratio: Sequence[float],
    lowest: float,
    highest: float,
) -> Box:
    """Ten tries for a box of a random area and aspect, then the largest one in the middle."""
    area = frame.height * frame.width
    for _ in range(10):
        target = area * draws.uniform(scale[0], scale[1])
        aspect = draws.exponential_of_uniform(lowest, highest)
        width = round(math.sqrt(target * aspect))
        height = round(math.sqrt(target / aspect))
        if 0 < width <= frame.width and 0 < height <= frame.height:
            top = draws.below(frame.height - height + 1)
            return draws.below(frame.width - width + 1), top, width, height
    width, height = frame.width, frame.height
    if width / height < min(ratio):
        height = round(width / min(ratio))
    elif width / height > max(ratio):
        width = round(height * max(ratio))
    return (frame.width - width) // 2, (frame.height - height) // 2, width, height


def resize(transform: Any) -> Step:
    size = transform.size
    sides = (size,) if isinstance(size, int) else tuple(size)

    def step(frame: Frame, draws: Draws) -> None:
        if len(sides) == 2:
            frame.resize(sides[1], sides[0])
            return
        short, long = sorted((frame.width, frame.height))
        new_short, new_long = sides[0], int(sides[0] * long / short)
        wide = frame.width > frame.height
        frame.resize(*((new_long, new_short) if wide else (new_short, new_long)))

    return step


def center_crop(transform: Any) -> Step:
    height, width = transform.size

    def step(frame: Frame, draws: Draws) -> None:
        # torchvision pads first, by the smaller half on the left and on top, and then cuts.
        across = (frame.width - width) if width > frame.width else 0
        down = (frame.height - height) if height > frame.height else 0
        left = -(-across // 2) if across else round((frame.width - width) / 2.0)
        top = -(-down // 2) if down else round((frame.height - height) / 2.0)
        frame.cut(left, top, width, height)

    return step


def random_horizontal_flip(transform: Any) -> Step:
    def step(frame: Frame, draws: Draws) -> None:
        if draws.share() < transform.p:
            frame.flip()

    return step
