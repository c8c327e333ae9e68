"""Shared code of the tests of partitioned graphs: functions that our own capture refuses, and what
the report says about their parts."""

from __future__ import annotations

import torch

from habana_frameworks.torch.dynamo import report


class Tripled(torch.autograd.Function):
    """A function whose gradient is not that of its forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x


class KeptUnchecked(torch.autograd.Function):
    """A tensor that is kept without save_for_backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.doubled = x * 2
        return ctx.doubled * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.doubled


def parts(reason: str, names: tuple[str, ...] = ("forward", "backward"), eager_nodes: int = 0):
    """The report's graphs are these parts of one graph, compiled for this reason."""
    graphs = report().graphs
    assert [g.name.rpartition("_")[2] for g in graphs] == list(names)
    for graph in graphs:
        assert graph.origin != "eager", graph.reason
        assert reason in graph.parted_because
        assert any("AOTAutograd" in line and reason in line for line in graph.lines())
    assert sum(graph.eager_nodes for graph in graphs) == eager_nodes
