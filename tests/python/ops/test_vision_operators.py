"""Operators and transforms of torchvision on hpu, eagerly and compiled, against the CPU.

Its operators have kernels for the CPU and rules for fake tensors, and nothing for hpu. So they run
on the CPU, and a graph with one is a program with an eager step that the report names. Pictures of
bytes are resized by integers on the CPU alone and by floats on every other device, which may differ
by one.
"""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import check
from torch import nn
from training_case import assert_close, compiled, matrix

from habana_frameworks.torch.dynamo import report

ops = pytest.importorskip(
    "torchvision.ops", reason="torchvision is not installed (docs/pytorch_versions.md)"
)
tv_tensors = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")


def boxes(count: int) -> torch.Tensor:
    corners = torch.rand(count, 4, generator=torch.Generator().manual_seed(3)) * 12
    return torch.cat([corners[:, :2], corners[:, :2] + corners[:, 2:] + 1], dim=1)


def regions() -> torch.Tensor:
    """Boxes with the number of their image."""
    return torch.cat([torch.tensor([[0.0], [1.0], [0.0], [1.0], [1.0]]), boxes(5)], dim=1)


def nms(corners, scores):
    return ops.nms(corners * 1.0, scores * 2.0, 0.3) + 1


def batched_nms(corners, scores, kinds):
    return ops.batched_nms(corners, scores, kinds, 0.3)


def roi_align(x, rois):
    return ops.roi_align(x.relu(), rois, (3, 4), 0.5, 2, aligned=True) * 2.0


def roi_pool(x, rois):
    return ops.roi_pool(x.relu(), rois, 3, 0.5) * 2.0


def deform_conv2d(x, offset, weight, bias, mask):
    return ops.deform_conv2d(x, offset, weight, bias, padding=1, mask=mask.sigmoid()).relu()


SCORES = torch.linspace(1.0, 0.0, 30)[torch.arange(30) * 7 % 30]
IMAGES = matrix(2, 3, 16, 12)
DEFORMABLE = (
    matrix(2, 4, 6, 5),
    matrix(2, 18, 6, 5, seed=1),
    matrix(8, 4, 3, 3, seed=2),
    matrix(8, seed=3),
    matrix(2, 9, 6, 5, seed=4),
)
CASES = {
    "nms": (nms, (boxes(30), SCORES)),
    "batched_nms": (batched_nms, (boxes(30), SCORES, torch.arange(30) % 3)),
    "roi_align": (roi_align, (IMAGES, regions())),
    "roi_pool": (roi_pool, (IMAGES, regions())),
    "deform_conv2d": (deform_conv2d, DEFORMABLE),
}
IN_GRAPHS = ["roi_align", "roi_pool", "deform_conv2d"]


@pytest.mark.parametrize("name", CASES)
def test_eager(name):
    function, inputs = CASES[name]
    assert_close(function(*(value.to("hpu") for value in inputs)), function(*inputs))


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    function, inputs = CASES[name]
    check(function, *inputs)


@pytest.mark.parametrize("name", IN_GRAPHS)
def test_report_names_the_operator(name):
    function, inputs = CASES[name]
    (reason,) = check(function, *inputs).eager_reasons
    assert f"torchvision::{name}" in reason


@pytest.mark.parametrize("name", IN_GRAPHS)
def test_gradients(name):
    function, inputs = CASES[name]
    ours = [value.to("hpu").requires_grad_() for value in inputs]
    theirs = [value.clone().requires_grad_() for value in inputs]
    got, expected = compiled(function)(*ours), function(*theirs)
    assert_close(got, expected, atol=1e-5)
    got.square().sum().backward()
    expected.square().sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.grad is None) == (other.grad is None)
        if other.grad is not None:
            assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_layers_of_a_detector():
    """A pyramid of features, its regions, and a head, as in torchvision's detectors."""
    torch.manual_seed(0)
    pooler = ops.MultiScaleRoIAlign(["fine", "coarse"], output_size=3, sampling_ratio=2)
    head = nn.Linear(3 * 9, 5)

    def score(fine, coarse, first, second):
        pooled = pooler({"fine": fine, "coarse": coarse}, [first, second], [(32, 24), (32, 24)])
        return head(pooled.flatten(1))

    inputs = matrix(2, 3, 16, 12), matrix(2, 3, 8, 6, seed=1), boxes(4), boxes(3) * 1.5
    with torch.no_grad():
        expected = score(*inputs)
        head.to("hpu")
        got = compiled(score)(*(value.to("hpu") for value in inputs))
    assert_close(got, expected, rtol=1e-4, atol=1e-5)


TRANSFORMS = {
    "resize": lambda: v2.Resize((11, 9), antialias=True),
    "nearest": lambda: v2.Resize((11, 9), interpolation=v2.InterpolationMode.NEAREST),
    "center crop": lambda: v2.CenterCrop(10),
    "random crop": lambda: v2.RandomResizedCrop(8, antialias=True),
    "flips": lambda: v2.Compose([v2.RandomHorizontalFlip(1.0), v2.RandomVerticalFlip(1.0)]),
    "pad": lambda: v2.Pad(2, padding_mode="reflect"),
    "normalize": lambda: v2.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
    "colours": lambda: v2.ColorJitter(0.3, 0.3, 0.3, 0.1),
    "grayscale": lambda: v2.Grayscale(3),
    "blur": lambda: v2.GaussianBlur(3, 0.8),
    "rotate": lambda: v2.RandomRotation((30, 30)),
    "affine": lambda: v2.RandomAffine((10, 10), (0.1, 0.2), (0.8, 0.9), (5, 6)),
    "perspective": lambda: v2.RandomPerspective(0.4, 1.0),
    "posterize and equalize": lambda: v2.Compose(
        [v2.RandomPosterize(3, 1.0), v2.RandomEqualize(1.0)]
    ),
    "erase": lambda: v2.RandomErasing(1.0),
    "to float": lambda: v2.ToDtype(torch.float32, scale=True),
}
PICTURES = (torch.rand(2, 3, 16, 12, generator=torch.Generator().manual_seed(5)) * 255).byte()
RESIZED = ["resize", "random crop"]
ONE_KIND = {"normalize": "floats", "posterize and equalize": "bytes", "to float": "bytes"}
TRANSFORMED = [
    (name, kind)
    for name in TRANSFORMS
    for kind in ("bytes", "floats")
    if ONE_KIND.get(name, kind) == kind
]


def transformed(transform, picture: torch.Tensor) -> torch.Tensor:
    """Transforms draw their parameters on the CPU, so a seed gives the same ones for each
    device."""
    torch.manual_seed(11)
    return transform(picture)


@pytest.mark.parametrize(("name", "kind"), TRANSFORMED)
def test_transform(name, kind):
    transform = TRANSFORMS[name]()
    picture = PICTURES if kind == "bytes" else PICTURES / 255
    got, expected = (transformed(transform, p) for p in (picture.to("hpu"), picture))
    assert got.device.type == "hpu"
    assert_close(got, expected, atol=1.0 if kind == "bytes" and name in RESIZED else 1e-6)


def test_transforms_compiled():
    transform = v2.Compose(
        [
            v2.ToDtype(torch.float32, scale=True),
            v2.Resize((11, 9), antialias=True),
            v2.CenterCrop(8),
            v2.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        ]
    )
    got = compiled(transform)(PICTURES.to("hpu"))
    assert_close(got, transform(PICTURES), rtol=1e-5, atol=1e-5)
    (reason,) = report().eager_reasons
    assert "_upsample_bilinear2d_aa" in reason


def test_boxes_beside_an_image():
    """Transforms keep boxes and masks with their image, by subclasses of tensors."""
    transform = v2.Compose([v2.Resize((32, 24)), v2.RandomHorizontalFlip(1.0), v2.CenterCrop(20)])
    corners = tv_tensors.BoundingBoxes(boxes(4), format="XYXY", canvas_size=(16, 12))
    sample = {"image": tv_tensors.Image(PICTURES[0] / 255), "boxes": corners}
    there = {name: copy.copy(value).to("hpu") for name, value in sample.items()}
    got, expected = transformed(transform, there), transformed(transform, sample)
    for name, value in expected.items():
        assert type(got[name]) is type(value)
        assert got[name].device.type == "hpu"
        assert_close(got[name].as_subclass(torch.Tensor), value.as_subclass(torch.Tensor))
    assert got["boxes"].canvas_size == expected["boxes"].canvas_size
