"""Pooling over volumes as pooling over images, twice: in the plane of each depth, then along the
depth, where each output of the planes is a column of an image.

Maxima keep their order: the first in its plane, then the first plane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....torch_compat.ops import OpOverload

_aten: Any = torch.ops.aten


def _three(values: Sequence[int]) -> list[int]:
    return [values[0]] * 3 if len(values) == 1 else list(values)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Widens to f32: sums of a window do not fit into f16, and averages of averages are to be
    rounded once."""
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def _planes(x: torch.Tensor) -> torch.Tensor:
    """[.., D, H, W] as images with one channel per depth."""
    return x.reshape(-1, *x.shape[-3:])


def _columns(planes: torch.Tensor) -> torch.Tensor:
    """[M, D, H, W] as images of D rows."""
    return planes.reshape(planes.shape[0], 1, planes.shape[1], -1)


class _Window:
    """The window of an average as arguments of the pooling of images, for the planes and for the
    depth."""

    def __init__(
        self, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil: bool
    ) -> None:
        kernel, padding = _three(kernel), _three(padding)
        stride = _three(stride) if stride else kernel
        # Both poolings give sums (their divisor is 1); `divided` divides afterwards.
        self.plane = (kernel[1:], stride[1:], padding[1:], ceil, True, 1)
        self.depth = ([kernel[0], 1], [stride[0], 1], [padding[0], 0], ceil, True, 1)
        self.kernel, self.padding = kernel, padding

    def divided(
        self, y: torch.Tensor, sizes: Sequence[int], count_padding: bool, divisor: int | None
    ) -> torch.Tensor:
        """y: one element per window, [.., D, H, W]. sizes: those of the pooled tensor."""
        if divisor is not None:
            return y / divisor
        if not any(self.padding) and not self.plane[3]:
            return y / (self.kernel[0] * self.kernel[1] * self.kernel[2])
        depth, height, width = sizes[-3:]
        ones = y.new_ones((1, 1, height, width))
        rows = y.new_ones((1, 1, depth, 1))
        if not count_padding:
            plane = _aten.avg_pool2d(ones, *self.plane)
            column = _aten.avg_pool2d(rows, *self.depth)
            count: torch.Tensor = plane * column.reshape(-1, 1, 1)
            return y / count[0]
        d, h, w = self.padding
        ones = _aten.constant_pad_nd(ones, [w, w, h, h], 1.0)
        rows = _aten.constant_pad_nd(rows, [0, 0, d, d], 1.0)
        plane = _aten.avg_pool2d(ones, *self.plane[:2], [0, 0], *self.plane[3:])
        column = _aten.avg_pool2d(rows, *self.depth[:2], [0, 0], *self.depth[3:])
        # A window must begin before the padding on the right, which is a part of the image here.
        plane = plane[..., : y.shape[-2], : y.shape[-1]]
        count = plane * column[:, :, : y.shape[-3]].reshape(-1, 1, 1)
        return y / count[0]


def _avg_pool3d(
    self: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    window = _Window(kernel_size, stride, padding, ceil_mode)
    y = _aten.avg_pool2d(_planes(_wide(self)), *window.plane)
    z = _aten.avg_pool2d(_columns(y), *window.depth)
    z = z.reshape(*self.shape[:-3], z.shape[2], *y.shape[-2:])
    return window.divided(z, self.shape, count_include_pad, divisor_override).to(self.dtype)


def _avg_pool3d_backward(
    grad_output: torch.Tensor,
    self: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    window = _Window(kernel_size, stride, padding, ceil_mode)
    grad = window.divided(_wide(grad_output), self.shape, count_include_pad, divisor_override)
    grad, like = _planes(grad), _planes(_wide(self))
    rows = like.new_empty((like.shape[0], 1, like.shape[1], grad.shape[-2] * grad.shape[-1]))
    along = _aten.avg_pool2d_backward(_columns(grad), rows, *window.depth)
    along = along.reshape(like.shape[0], like.shape[1], *grad.shape[-2:])
    result: torch.Tensor = _aten.avg_pool2d_backward(along, like, *window.plane).reshape(self.shape)
    return result.to(self.dtype)


def _adaptive_avg_pool3d(self: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    depth, height, width = _three(output_size)
    y = _aten._adaptive_avg_pool2d(_planes(_wide(self)), [height, width])
    z = _aten._adaptive_avg_pool2d(_columns(y), [depth, height * width])
    result: torch.Tensor = z.reshape(*self.shape[:-3], depth, height, width)
    return result.to(self.dtype)


def _adaptive_avg_pool3d_backward(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    grad, like = _planes(_wide(grad_output)), _planes(_wide(self))
    height, width = grad.shape[-2:]
    rows = like.new_empty((like.shape[0], 1, like.shape[1], height * width))
    along = _aten._adaptive_avg_pool2d_backward(_columns(grad), rows)
    along = along.reshape(like.shape[0], like.shape[1], height, width)
    result: torch.Tensor = _aten._adaptive_avg_pool2d_backward(along, like).reshape(self.shape)
    return result.to(self.dtype)


def _joined(
    self: torch.Tensor,
    in_planes: tuple[torch.Tensor, torch.Tensor],
    pool_depth: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The maxima and their positions in the volume. in_planes: maxima and positions in every
    plane."""
    y, places = in_planes
    z, along = pool_depth(_columns(y))
    depth = torch.arange(y.shape[1], device=self.device).reshape(-1, 1, 1)
    places = places + depth * (self.shape[-2] * self.shape[-1])
    count = y.shape[0]
    chosen = places.reshape(count, -1).gather(1, along.reshape(count, -1))
    sizes = (*self.shape[:-3], z.shape[2], *y.shape[-2:])
    return z.reshape(sizes), chosen.reshape(sizes)


def _adaptive_max_pool3d(
    self: torch.Tensor, output_size: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    depth, height, width = _three(output_size)
    return _joined(
        self,
        _aten.adaptive_max_pool2d(_planes(self), [height, width]),
        lambda y: _aten.adaptive_max_pool2d(y, [depth, height * width]),
    )


def _max_pool3d(
    self: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    kernel, padding, dilation = _three(kernel_size), _three(padding), _three(dilation)
    stride = _three(stride) if stride else kernel
    return _joined(
        self,
        _aten.max_pool2d_with_indices(
            _planes(self), kernel[1:], stride[1:], padding[1:], dilation[1:], ceil_mode
        ),
        lambda y: _aten.max_pool2d_with_indices(
            y, [kernel[0], 1], [stride[0], 1], [padding[0], 0], [dilation[0], 1], ceil_mode
        ),
    )


def _to_places(
    grad_output: torch.Tensor, self: torch.Tensor, dims: int, indices: torch.Tensor
) -> torch.Tensor:
    """Adds each gradient to the position of its maximum within the last `dims` dimensions."""
    count = 1
    for size in self.shape[:-dims]:
        count *= size
    zeros = grad_output.new_zeros((count, self.numel() // count))
    grad = zeros.scatter_add(1, indices.reshape(count, -1), grad_output.reshape(count, -1))
    return grad.reshape(self.shape)


def _max_pool3d_backward(grad_output: torch.Tensor, self: torch.Tensor, *more: Any) -> torch.Tensor:
    """The indices are the last argument."""
    return _to_places(grad_output, self, 3, more[-1])


def _max_pool2d_backward(grad_output: torch.Tensor, self: torch.Tensor, *more: Any) -> torch.Tensor:
    return _to_places(grad_output, self, 2, more[-1])


VOLUME_POOLING: dict[OpOverload, Callable[..., Any]] = {
    _aten._adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    _aten._adaptive_avg_pool3d_backward.default: _adaptive_avg_pool3d_backward,
    _aten.adaptive_max_pool3d.default: _adaptive_max_pool3d,
    _aten.adaptive_max_pool3d_backward.default: _max_pool3d_backward,
    _aten.avg_pool3d.default: _avg_pool3d,
    _aten.avg_pool3d_backward.default: _avg_pool3d_backward,
    _aten.fractional_max_pool2d_backward.default: _max_pool2d_backward,
    _aten.fractional_max_pool3d_backward.default: _max_pool3d_backward,
    _aten.max_pool3d_with_indices.default: _max_pool3d,
    _aten.max_pool3d_with_indices_backward.default: _max_pool3d_backward,
}
