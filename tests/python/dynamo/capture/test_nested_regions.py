"""Regions of torch.compiler.nested_compile_region: they are parts of the graph around them.

Guide rows: FALL-1, FALL-2 (eager segments).
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from training_case import assert_close, compiled, leaf, matrix

from habana_frameworks.torch.dynamo import report


def test_regions_that_are_compiled_once():
    """The second call of PyTorch's operation on a nested graph failed in training."""

    def run(device, wrap):
        torch.manual_seed(0)
        layer = nn.Linear(4, 4).to(device)

        @torch.compiler.nested_compile_region
        def pair(x, scale):
            return layer(x).sin(), x * scale

        @torch.compiler.nested_compile_region
        def outer(x):
            first, second = pair(x, 2)
            return first + second

        def function(x):
            y = outer(outer(x))
            first, _ = pair(y, 3)
            return first.sum()

        x = matrix().to(device).requires_grad_()
        wrap(function)(x).backward()
        with torch.no_grad():
            result = wrap(function)(x)
        return [t.cpu() for t in (x.grad, layer.weight.grad, layer.bias.grad, result)]

    torch.testing.assert_close(run("hpu", compiled), run("cpu", lambda f: f))
    (graph,) = report().graphs
    assert (graph.origin == "eager", graph.parted_because, graph.eager_nodes) == (False, "", 0)


def test_a_checkpoint_in_a_nested_region_and_statistics():
    def run(device, wrap):
        torch.manual_seed(0)
        block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()).to(device)

        @torch.compiler.nested_compile_region
        def region(x):
            return block(x)

        run = wrap(lambda x: region(region(x).sin()).square().sum())
        x = matrix().to(device).requires_grad_()
        run(x).backward()
        return [x.grad.cpu(), *(p.grad.cpu() for p in block.parameters())], [
            b.cpu() for b in block.buffers()
        ]

    ours, theirs = run("hpu", compiled), run("cpu", lambda f: f)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(2, 3, 5)])
def test_regions_with_sizes_that_change(sizes):
    @torch.compiler.nested_compile_region
    def region(x, w):
        return (x * x.shape[0]) @ w

    run = compiled(lambda x, w: region(region(x, w).tanh(), w).sum())
    for rows in sizes:
        w, x = leaf(), matrix(rows, 4)
        run(x.to("hpu"), w).backward()
        cpu = matrix().requires_grad_()
        (((((x * rows) @ cpu).tanh()) * rows) @ cpu).sum().backward()
        assert_close(w.grad, cpu.grad, rtol=1e-4, atol=1e-4)
