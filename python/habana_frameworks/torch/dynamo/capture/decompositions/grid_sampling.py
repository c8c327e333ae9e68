"""grid_sample on images, and its backward. A pixel is a row of all its channels, which is read and
added to as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

_aten: Any = torch.ops.aten

_NEAREST = 1
_BORDER = 1


def _pixels(
    coordinate: torch.Tensor, size: int, border: bool, align_corners: bool
) -> tuple[torch.Tensor, torch.Tensor | float]:
    """The position of a coordinate from -1 to 1 among `size` pixels, and how far the position moves
    when the coordinate grows by 1."""
    slope = (size - 1) / 2 if align_corners else size / 2
    place = (coordinate.reshape(-1) + 1) * slope - (0.0 if align_corners else 0.5)
    if not border:
        return place, slope
    inside = (place > 0) & (place < size - 1)
    return place.clamp(0, size - 1), torch.where(inside, slope, 0.0)


class _Sampling:
    """The rows that each point of the grid reads."""

    def __init__(
        self,
        input: torch.Tensor,
        grid: torch.Tensor,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
    ) -> None:
        if interpolation_mode > _NEAREST or padding_mode > _BORDER:
            raise NotImplementedError
        if input.dtype != torch.float32 or grid.dtype != torch.float32:
            raise NotImplementedError
        self.count, self.channels, self.height, self.width = input.shape
        self.out_height, self.out_width = grid.shape[1:3]
        border = padding_mode == _BORDER
        self.x, self.slope_x = _pixels(grid[..., 0], self.width, border, align_corners)
        self.y, self.slope_y = _pixels(grid[..., 1], self.height, border, align_corners)
        images = torch.arange(self.count, device=grid.device) * (self.height * self.width)
        points = self.out_height * self.out_width
        self.first = images.unsqueeze(1).expand(self.count, points).reshape(-1)

    def pixel(self, column: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The row of a pixel, and whether it is in its image. Rows are counted in integers, because
        f32 does not hold every row number above 2 ** 24."""
        there = (column >= 0) & (column < self.width) & (row >= 0) & (row < self.height)
        line = row.clamp(0, self.height - 1).to(torch.int64) * self.width
        place = line + column.clamp(0, self.width - 1).to(torch.int64)
        return place + self.first, there

    def corners(
        self,
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, int]]:
        """For each corner: the row, whether it is in the image, the weights along x and y, and on
        which side the corner lies."""
        left, top = self.x.floor(), self.y.floor()
        along_x, along_y = self.x - left, self.y - top
        for right in (0, 1):
            for below in (0, 1):
                row, there = self.pixel(left + right, top + below)
                share_x = along_x if right else 1 - along_x
                share_y = along_y if below else 1 - along_y
                yield row, there, share_x, share_y, right, below


def _where(there: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The rows with 0 for those outside the image, whose values may be inf or NaN."""
    return torch.where(there.unsqueeze(1), rows, 0.0)


def _rows(images: torch.Tensor) -> torch.Tensor:
    return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1])


def _images(rows: torch.Tensor, count: int, height: int, width: int) -> torch.Tensor:
    images = rows.reshape(count, height, width, -1).permute(0, 3, 1, 2)
    # contiguous() would keep the strides of a single channel.
    return images.clone(memory_format=torch.contiguous_format)


def grid_sampler_2d(
    input: torch.Tensor,
    grid: torch.Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> torch.Tensor:
    at = _Sampling(input, grid, interpolation_mode, padding_mode, align_corners)
    rows = _rows(input)
    if interpolation_mode == _NEAREST:
        row, there = at.pixel(at.x.round(), at.y.round())
        read = _where(there, rows.index_select(0, row))
    else:
        read = torch.zeros((), device=rows.device)
        for row, there, share_x, share_y, _, _ in at.corners():
            share = (share_x * share_y).unsqueeze(1)
            read = read + _where(there, rows.index_select(0, row) * share)
    return _images(read, at.count, at.out_height, at.out_width)


def grid_sampler_2d_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    grid: torch.Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor]:
    at = _Sampling(input, grid, interpolation_mode, padding_mode, align_corners)
    gradient, rows = _rows(grad_output), _rows(input)
    summed = torch.zeros(rows.shape, device=rows.device)
    moved_x, moved_y = torch.zeros_like(at.x), torch.zeros_like(at.y)
    if interpolation_mode == _NEAREST:
        row, there = at.pixel(at.x.round(), at.y.round())
        summed = summed.index_add(0, row, _where(there, gradient))
    else:
        for row, there, share_x, share_y, right, below in at.corners():
            if output_mask[0]:
                share = (share_x * share_y).unsqueeze(1)
                summed = summed.index_add(0, row, _where(there, gradient * share))
            if output_mask[1]:
                value = _where(there, rows.index_select(0, row) * gradient).sum(1)
                moved_x = moved_x + (value if right else -value) * share_y
                moved_y = moved_y + (value if below else -value) * share_x
    images = _images(summed, at.count, at.height, at.width)
    moved = torch.stack((moved_x * at.slope_x, moved_y * at.slope_y), -1).reshape(grid.shape)
    # PyTorch's op gives the grid a gradient whether that is requested or not.
    return images if output_mask[0] else None, moved
