"""ATen ops that the compile server takes apart, and those without a rule there: PyTorch's
decomposition where it ends in known ops, the op itself elsewhere.

Guide rows: FALL-1, FALL-2 (eager segments).
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers import check, compiled_whole, fresh_process

from habana_frameworks.torch.dynamo import report

X = torch.linspace(-2, 2, 24).view(4, 6).cos()
Y = torch.linspace(-1, 3, 24).view(4, 6).sin()
PROBABILITY = Y.sigmoid()
CLASSES = torch.tensor([3, 0, 5, 2])
IMAGE = torch.arange(2 * 4 * 6 * 6.0).view(2, 4, 6, 6).sin()

DECOMPOSED = {
    "mse_loss": (F.mse_loss, X, Y),
    "huber_loss": (F.huber_loss, X, Y),
    "smooth_l1_loss": (F.smooth_l1_loss, X, Y),
    "binary_cross_entropy": (F.binary_cross_entropy, PROBABILITY, PROBABILITY.flip(0)),
    "with logits": (F.binary_cross_entropy_with_logits, X, PROBABILITY),
    "cross_entropy": (F.cross_entropy, X, CLASSES),
    "diff": (torch.diff, X),
    "and": (lambda x, y: (x > 0) & (y > 0), X, Y),
    "trace": (torch.trace, X),
    "diag_embed": (torch.diag_embed, X),
    "block_diag": (lambda x, y: torch.block_diag(x, y), X, Y),
    "eye": (lambda x: x + torch.eye(4, 6, device=x.device), X),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), X),
    "cross": (lambda x, y: torch.linalg.cross(x[:, :3], y[:, 1:4]), X, Y),
    "isin": (torch.isin, CLASSES, torch.tensor([0, 2])),
    "hardshrink": (F.hardshrink, X),
    "softshrink": (F.softshrink, X),
    "logit": (torch.logit, PROBABILITY),
    "reflection": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), IMAGE),
    "replication": (lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), IMAGE),
    "unfold": (lambda x: F.unfold(x, 3), IMAGE),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), IMAGE),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), IMAGE),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"), IMAGE),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), IMAGE),
    "bilinear": (F.bilinear, X, Y, torch.ones(3, 6, 6).cumsum(0).cumsum(2) / 20),
    "rrelu": (F.rrelu, X),
    "conv_tbc": (lambda x: torch.conv_tbc(x[0], x[1, :3], x[1, 0, 0], 1), IMAGE),
    "copysign": (torch.copysign, X, Y),
    "copysign of a zero": (lambda x: torch.copysign(x, torch.tensor(-0.0, device=x.device)), X),
    "round to decimals": (lambda x: (x.round(decimals=1), (x * 99).round(decimals=-1)), X),
    "cdist": (torch.cdist, X, Y),
    "kthvalue": (lambda x: torch.kthvalue(x, 2, 0), X),
    "median": (lambda x: (torch.median(x, 1), torch.median(x, 0, True)), X),
    "put": (lambda x, i: x.put(i, x[0, :4], accumulate=True), X, CLASSES),
    "masked_scatter": (lambda x, y: x.masked_scatter(y > 0.5, y.flip(0)), X, Y),
    "searchsorted": (lambda x, y: torch.searchsorted(x.sort(-1).values, y, right=True), X, Y),
    "searchsorted with NaN": (
        lambda x, y: (torch.searchsorted(x, y), torch.searchsorted(x, y, right=True)),
        torch.tensor([1.0, 2.0, 3.0]),
        torch.tensor([0.5, torch.nan, 2.0, torch.inf]),
    ),
    "repeat_interleave": (
        lambda x, n: x.repeat_interleave(n, 0, output_size=10),
        X,
        CLASSES,
    ),
    "histc": (lambda x: torch.histc(x, 5, -1, 1), X),
    "shift": (lambda n: n << 3, CLASSES),
    "shift right": (lambda n: (n - 4) >> 1, CLASSES),
    "median of all": (torch.median, X),
    "fmax": (
        lambda x, y: (torch.fmax(x, y), torch.fmin(y, x)),
        torch.tensor([1.0, torch.nan, 3.0, torch.nan, torch.inf]),
        torch.tensor([0.5, 1.5, torch.nan, torch.nan, -2.0]),
    ),
    "index_reduce": (
        lambda x, i: [
            x.index_reduce(0, i, x[:2], kind, include_self=itself)
            for kind in ("amax", "amin", "mean", "prod")
            for itself in (True, False)
        ],
        X,
        torch.tensor([2, 2]),
    ),
    "diagonal_scatter": (
        lambda x: [
            torch.diagonal_scatter(x, x[:3, 0], 3),
            torch.diagonal_scatter(x, x[:3, 1], -1),
            torch.diagonal_scatter(x.view(2, 3, 4), x[:3, :2], -1, 2, 0),
        ],
        X,
    ),
    "grid_sample of one channel": (
        lambda x, y: F.grid_sample(x, y, align_corners=True),
        IMAGE[:, :1],
        IMAGE[..., 2:4] * 1.5,
    ),
    "triangles": (
        lambda x: (
            x[tuple(torch.tril_indices(4, 6, 1, device=x.device))],
            x[tuple(torch.triu_indices(4, 6, -1, device=x.device))],
            x[tuple(torch.triu_indices(4, 6, 2, device=x.device))],
        ),
        X,
    ),
}


@pytest.mark.parametrize("case", DECOMPOSED)
def test_ends_in_recipes(case):
    function, *inputs = DECOMPOSED[case]
    compiled_whole(check(function, *inputs, rtol=1e-5, atol=1e-5))


@pytest.mark.parametrize("of_image", [True, False], ids=["image and grid", "grid"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_gradients_of_grid_sample(mode, padding_mode, align_corners, of_image):
    """The points are inside the images, outside, and on a corner pixel."""
    points = torch.rand(2, 5, 3, 2, generator=torch.Generator().manual_seed(0)) * 3 - 1.5
    points[0, 0, 0] = -1
    weights = torch.arange(120.0).view(2, 4, 5, 3).cos()
    found = []
    fresh_process()
    for kind in ("hpu", "cpu"):
        image = IMAGE[..., :5].to(kind, copy=True).requires_grad_(of_image)
        grid = points.to(kind, copy=True).requires_grad_()
        sample = F.grid_sample
        if kind == "hpu":
            sample = torch.compile(F.grid_sample, backend="hpu_backend")
        sampled = sample(image, grid, mode, padding_mode, align_corners)
        (sampled * weights.to(kind)).sum().backward()
        found.append([sampled.detach(), grid.grad, *([image.grad] if of_image else [])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-5)
    compiled_whole(report())


def test_under_functionalization():
    def function(x, y):
        x.add_(1)
        return F.mse_loss(x, y) + torch.trace(x)

    compiled_whole(check(function, X.clone(), Y))


@pytest.mark.parametrize(
    ("op", "function", "inputs"),
    [
        ("lgamma", torch.lgamma, (PROBABILITY,)),
        (
            "grid_sampler_2d",
            lambda x, y: F.grid_sample(x, y, padding_mode="reflection", align_corners=False),
            (IMAGE, IMAGE[..., :2] * 2),
        ),
    ],
)
def test_stays_one_op_where_a_part_is_unknown(op, function, inputs):
    summary = check(function, *inputs, rtol=1e-5, atol=1e-5)
    (graph,) = summary.graphs
    assert graph.eager_nodes == 1
    assert f"aten::{op}" in graph.eager_steps[0]


def test_grid_sample_beside_numbers_that_are_none():
    """Points outside the image count as nothing, even where the nearest pixel is inf."""
    x = torch.ones(1, 1, 4, 4)
    x[..., 3] = -torch.inf
    grid = torch.tensor([[[[1.5, 0.0], [-0.5, 0.0], [-3.0, -3.0]]]])
    for mode in ("nearest", "bilinear"):
        expected = F.grid_sample(x, grid, mode, "zeros", align_corners=False)
        compiled = torch.compile(F.grid_sample, backend="hpu_backend")
        ours = compiled(x.to("hpu"), grid.to("hpu"), mode, "zeros", align_corners=False)
        torch.testing.assert_close(ours.cpu(), expected)


def test_grid_sample_of_an_image_whose_pixels_f32_cannot_count():
    x = torch.arange(4100.0).repeat(4101, 1)[None, None]
    x[0, 0] += 0.5 * (torch.arange(4101) % 2)[:, None]
    grid = torch.tensor([[[[0.9001, 0.99], [0.7003, 1.0], [-0.3, 0.9995]]]])
    expected = F.grid_sample(x, grid, "nearest", align_corners=True)
    compiled = torch.compile(F.grid_sample, backend="hpu_backend")
    ours = compiled(x.to("hpu"), grid.to("hpu"), "nearest", align_corners=True)
    assert torch.equal(ours.cpu(), expected)
