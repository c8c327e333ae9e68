"""Convolution and pooling of volumes, forward and gradients, in recipes; compared with CPU
eager."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from training_case import assert_close, compiled, matrix, only_graph

from habana_frameworks.torch.dynamo import report

CONVOLUTIONS = {
    "plain": lambda: nn.Conv3d(4, 6, 3),
    "by the depth alone": lambda: nn.Conv3d(4, 6, (3, 1, 1), padding=(1, 0, 0)),
    "by the plane alone": lambda: nn.Conv3d(4, 6, (1, 3, 3)),
    "strides and padding": lambda: nn.Conv3d(4, 6, (2, 3, 3), (3, 2, 1), (1, 0, 2)),
    "dilation and groups": lambda: nn.Conv3d(4, 6, 2, dilation=(2, 1, 3), groups=2, bias=False),
    "a filter for each channel": lambda: nn.Conv3d(4, 8, 3, padding=1, groups=4),
    "same": lambda: nn.Conv3d(4, 6, (2, 3, 4), padding="same"),
    "patches": lambda: nn.Conv3d(4, 6, 2, stride=2),
    "transposed": lambda: nn.ConvTranspose3d(4, 6, 3),
    "transposed with strides": lambda: nn.ConvTranspose3d(
        4, 6, (3, 2, 3), (2, 3, 1), (1, 0, 1), output_padding=(1, 2, 0)
    ),
    "transposed in groups": lambda: nn.ConvTranspose3d(4, 6, 2, dilation=2, groups=2, bias=False),
}
POOLS = {
    "max": lambda: nn.MaxPool3d(2),
    "max with padding": lambda: nn.MaxPool3d((3, 2, 3), 2, (1, 0, 1), ceil_mode=True),
    "max with dilation": lambda: nn.MaxPool3d(2, 1, dilation=(2, 1, 3)),
    "average": lambda: nn.AvgPool3d(2),
    "average with padding": lambda: nn.AvgPool3d((3, 2, 3), 2, (1, 1, 1), ceil_mode=True),
    "average without padding": lambda: nn.AvgPool3d(3, 2, 1, count_include_pad=False),
    "average by a divisor": lambda: nn.AvgPool3d((2, 3, 2), 2, divisor_override=5),
    "adaptive average": lambda: nn.AdaptiveAvgPool3d((2, 3, 5)),
    "adaptive max": lambda: nn.AdaptiveMaxPool3d((2, 3, 5)),
    "replicated edges": lambda: nn.ReplicationPad3d((1, 2, 0, 3, 2, 1)),
}


@pytest.mark.parametrize("case", [*CONVOLUTIONS, *POOLS])
def test_forward_and_gradients(case):
    torch.manual_seed(0)
    cpu = (CONVOLUTIONS | POOLS)[case]()
    device = copy.deepcopy(cpu).to("hpu")
    inputs = matrix(2, 4, 7, 8, 6)
    x, like = inputs.to("hpu").requires_grad_(), inputs.clone().requires_grad_()
    ours, theirs = compiled(device)(x), cpu(like)
    weights = matrix(*theirs.shape, seed=1)
    (ours * weights.to("hpu")).sum().backward()
    (theirs * weights).sum().backward()
    assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert_close(x.grad, like.grad, rtol=1e-4, atol=1e-5)
    for mine, other in zip(device.parameters(), cpu.parameters(), strict=True):
        assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-4)
    only_graph()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "pool",
    [
        nn.AvgPool3d((4, 32, 32)),
        nn.AvgPool3d((2, 32, 32), 1, (1, 3, 3)),
        nn.AdaptiveAvgPool3d((1, 1, 1)),
    ],
    ids=["plain", "padding", "adaptive"],
)
def test_averages_of_large_windows(pool, dtype):
    """A window's sum is larger than f16 can hold, and the averages of the single directions are not
    rounded."""
    x = (matrix(1, 2, 4, 32, 32).abs() * 200).to(dtype)
    exact = x.double().requires_grad_()
    ours, theirs = x.to("hpu").requires_grad_(), pool(exact)
    y = compiled(pool)(ours)
    y.float().sum().backward()
    theirs.sum().backward()
    rounding = torch.finfo(dtype).eps
    assert y.dtype == ours.grad.dtype == dtype
    assert_close(y.double(), theirs, rtol=rounding, atol=0)
    assert_close(ours.grad.double(), exact.grad, rtol=rounding, atol=1e-7)
    only_graph()


def test_places_of_maxima():
    pool = nn.MaxPool3d((2, 3, 2), (2, 1, 2), return_indices=True)
    x = torch.randint(0, 4, (2, 3, 6, 7, 8)).float()  # with many equals
    with torch.no_grad():
        ours = compiled(pool)(x.to("hpu"))
    for mine, other in zip(ours, pool(x), strict=True):
        assert torch.equal(mine.cpu(), other)
    only_graph()


def test_integers_are_refused():
    """The compiler has no convolution of integers; the graph runs its step on the CPU."""
    x = torch.arange(3 * 4**3).reshape(1, 3, 4, 4, 4)
    weight = torch.arange(2 * 3 * 2**3).reshape(2, 3, 2, 2, 2)
    ours = compiled(torch.nn.functional.conv3d)(x.to("hpu"), weight.to("hpu"))
    assert torch.equal(ours.cpu(), torch.nn.functional.conv3d(x, weight))
    (graph,) = report().graphs
    assert graph.eager_nodes == 1
    assert graph.eager_steps[0].endswith("# [dtype_c1] operand 0 of conv is i64")
