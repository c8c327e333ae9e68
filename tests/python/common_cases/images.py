"""Rows of pooling, resizing, convolutions and norms."""

from __future__ import annotations

import torch.nn.functional as F

from .inputs import IMAGE, C, Row, V, tensor

IMAGES: dict[str, Row] = {
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "max_pool2d with indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), IMAGE),
    "max_pool2d, dilated": (lambda x: F.max_pool2d(x, 2, 1, 0, 2), IMAGE),
    "max_pool2d, ceil_mode": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), IMAGE),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), C),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "avg_pool2d, padding not counted": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        IMAGE,
    ),
    "avg_pool2d, divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), IMAGE),
    "avg_pool2d, ceil_mode": (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), IMAGE),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), IMAGE),
    "adaptive_avg_pool2d to more": (lambda x: F.adaptive_avg_pool2d(x, (11, 3)), IMAGE),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 2)), IMAGE),
    "lp_pool": (lambda x: F.lp_pool2d(x.abs(), 2, 2), IMAGE),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "nearest to fewer": (lambda x: F.interpolate(x, size=(4, 5)), IMAGE),
    "nearest-exact": (lambda x: F.interpolate(x, size=(5, 11), mode="nearest-exact"), IMAGE),
    "bilinear": (lambda x: F.interpolate(x, size=(5, 11), mode="bilinear"), IMAGE),
    "bilinear, corners": (
        lambda x: F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True),
        IMAGE,
    ),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), IMAGE),
    "linear": (lambda x: F.interpolate(x, size=7, mode="linear"), C),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        IMAGE,
        tensor(2, 3, 5, 2),
    ),
    "affine_grid": (lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners=False), tensor(2, 2, 3)),
    "convolution of one pixel": (
        lambda x, w: F.conv2d(x, w[:, :, :1, :1]),
        IMAGE,
        tensor(3, 4, 2, 2),
    ),
    "convolution in groups": (lambda x, w: F.conv2d(x, w, groups=2), IMAGE, tensor(6, 2, 3, 3)),
    "convolution, uneven": (
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(0, 2), dilation=(1, 2)),
        IMAGE,
        tensor(3, 4, 2, 3),
    ),
    "convolution of nothing": (lambda x, w: F.conv2d(x[:0], w), IMAGE, tensor(3, 4, 2, 2)),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, output_padding=1),
        IMAGE,
        tensor(4, 3, 3, 3),
    ),
    "fold and unfold": (lambda x: F.fold(F.unfold(x, 2), (9, 7), 2), IMAGE),
    "batch_norm": (lambda x, v: F.batch_norm(x, v[:4], v[:4].abs(), v[:4], None), IMAGE, V),
    "group_norm": (lambda x: F.group_norm(x, 2), IMAGE),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3), IMAGE),
}
