"""Arrays of a batch, and windows at a relative position of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..pipeline.operator import Operator
from ..pipeline.run import Views


@dataclass(frozen=True)
class Window:
    """A size for each axis, the slowest first, and where it lies: at 0 it begins where the array
    begins, at 1 it ends where the array ends."""

    title: str  # of the operator
    sizes: tuple[int, ...]
    positions: tuple[float, ...]

    def __post_init__(self) -> None:
        if min(self.sizes) < 1 or not all(0 <= position <= 1 for position in self.positions):
            raise ValueError(
                f"{self.title} needs sizes of at least 1 and positions from 0 to 1, and they are "
                f"{self.sizes} and {self.positions} (depth, height, width)"
            )

    def of(self, *shape: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first element of each axis, and the sizes."""
        if any(size > there for size, there in zip(self.sizes, shape, strict=True)):
            raise ValueError(
                f"{self.title} cannot cut a window of {self.sizes} (depth, height, width) out of "
                f"{shape}"
            )
        first = [
            int(position * (there - size) + 0.5)
            for position, there, size in zip(self.positions, shape, self.sizes, strict=True)
        ]
        return tuple(first), self.sizes


def window_at(array: np.ndarray, first: tuple[int, ...], sizes: tuple[int, ...]) -> np.ndarray:
    """A view of the last axes."""
    cut: list[Any] = [slice(begin, begin + n) for begin, n in zip(first, sizes, strict=True)]
    return array[(..., *cut)]


def views_of(operator: Operator, value: torch.Tensor | Views, axes: int) -> Views:
    """The samples of an input that must have at least so many axes, the batch's included."""
    views = value if isinstance(value, Views) else Views(list(value.numpy()))
    for array in views.arrays:
        if array.ndim + 1 < axes:
            raise ValueError(
                f"{operator.title} needs at least {axes} axes in numpy's order and has "
                f"{('batch', *array.shape)}"
            )
    return views
