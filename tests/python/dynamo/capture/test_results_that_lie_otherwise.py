"""AOTAutograd writes `aten.copy` for writes to views of a tensor. Where such a value lies in memory
is no part of a graph, unless the graph returns it."""

from __future__ import annotations

import pytest
import torch

from habana_frameworks.torch.dynamo import report


def _column(x):
    y = x.clone()
    part = y[0]
    y[:, 1] = y[:, 0]
    return y, part


def _transposed(x):
    y = x.clone()
    part, column = y[1:3], y.t()[0]
    y[:, 1] = y[:, 0]
    return y, part, column


def _masked(x):
    y = x.clone()
    part = y[1:3]
    part.mul_(2.0)
    y[y > 1.0] = -1.0
    return y, part


def _run(function, x: torch.Tensor, used: tuple[int, ...]) -> list[torch.Tensor]:
    x.requires_grad_()
    results = function(x)
    sum(results[i].sin().sum() for i in used).backward()
    return [*(result.detach().cpu() for result in results), x.grad.cpu()]


@pytest.mark.parametrize("used", [(0,), (0, 1), (1,)])
@pytest.mark.parametrize("function", [_column, _transposed, _masked])
def test_backwards_of_writes_to_a_base_with_views(function, used):
    host = torch.arange(25.0).reshape(5, 5) / 7
    torch.compiler.reset()
    before = len(report().graphs)
    compiled = torch.compile(function, backend="hpu_backend")
    got = _run(compiled, host.to("hpu"), used)
    for ours, theirs in zip(got, _run(function, host.clone(), used), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert [graph.reason for graph in report().graphs[before:]] == ["", ""]


def test_a_part_of_an_input_that_is_written_and_returned():
    def function(x):
        part = x[2:]
        part.copy_(part * 2)
        return part

    host = torch.arange(8.0).reshape(4, 2)
    x = host.to("hpu")
    before = len(report().graphs)
    part = torch.compile(function, backend="hpu_backend")(x)
    assert torch.equal(part.cpu(), host[2:] * 2) and torch.equal(x[:2].cpu(), host[:2])
    part.zero_()
    assert torch.equal(x.cpu()[2:], torch.zeros(2, 2))
    (graph,) = report().graphs[before:]
    assert graph.reason == ""
