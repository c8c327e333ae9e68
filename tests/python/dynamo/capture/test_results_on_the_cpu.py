"""A graph may return tensors on the CPU: it computes them on the device and copies them at its end
(MODE-2)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.records.records import GraphRecord


def _matrix(rows: int, columns: int) -> torch.Tensor:
    return torch.arange(float(rows * columns)).reshape(rows, columns) / 7 - 1


def _read_before_a_write(x, w):
    before = x.cpu()
    x.add_(w)
    return before, x.cpu() * 2


CALLS = {
    "copy": lambda x, w: (x @ w).cpu(),
    "copy of an input": lambda x, w: (x.cpu(), x + 1),
    "both places": lambda x, w: ((x @ w).relu(), (x @ w).relu().cpu()),
    "calculated there": lambda x, w: (x @ w).cpu().softmax(-1) + torch.ones(4),
    "there and back": lambda x, w: (x.sum(0).cpu() * 2).to("hpu") @ w,
    "made there": lambda x, w: (x + 1, torch.arange(3), torch.full((2, 2), 1.5)),
    "another type": lambda x, w: x.to("cpu", torch.bfloat16),
    "narrower": lambda x, w: (x > 0).cpu(),
    "transposed": lambda x, w: x.cpu().t(),
    "a part": lambda x, w: (x @ w)[1:, 2].cpu(),
    "expanded": lambda x, w: x.sum().cpu().expand(2, 3),
    "the same twice": lambda x, w: (lambda y: (y, y))(x.cpu()),
    "without elements": lambda x, w: x[:0].cpu(),
    "read before a write": _read_before_a_write,
}


def _run(function, *arguments: torch.Tensor) -> tuple[list[torch.Tensor], GraphRecord]:
    """The results of a compiled function, and what became of its graph."""
    before = len(report().graphs)
    made = torch.compile(function, backend="hpu_backend", fullgraph=True)(*arguments)
    (record,) = report().graphs[before:]
    return list(made) if isinstance(made, tuple) else [made], record


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_eager_mode(name):
    results, record = _run(CALLS[name], _matrix(4, 4).to("hpu"), _matrix(4, 4).to("hpu"))
    wanted = CALLS[name](_matrix(4, 4).to("hpu"), _matrix(4, 4).to("hpu"))
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    for got, right in zip(results, wanted, strict=True):
        torch.testing.assert_close(got, right)
        assert name == "expanded" or got.stride() == right.stride()
    assert record.reason == "" and record.eager_nodes == 0 and record.recipes <= 1, record.lines()
    if name == "the same twice":
        assert results[0] is results[1]


def test_each_call_gives_a_tensor_of_its_own():
    function = torch.compile(lambda x: (x * 2).cpu(), backend="hpu_backend")
    first = function(torch.ones(3, device="hpu"))
    second = function(torch.full((3,), 5.0, device="hpu"))
    assert (first.tolist(), second.tolist()) == ([2.0] * 3, [10.0] * 3)


def test_gradients_of_results_on_the_cpu():
    """The gradient of such a result comes from the CPU, too."""
    host = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    ours = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    ours.load_state_dict(host.state_dict())
    ours.to("hpu")

    def step(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = model(x)
        return y.cpu(), y.detach().mean(0).cpu()

    before = len(report().graphs)
    for model, function, place in (
        (host, step, "cpu"),
        (ours, torch.compile(step, backend="hpu_backend"), "hpu"),
    ):
        y, mean = function(model, _matrix(3, 4).to(place))
        assert y.device.type == mean.device.type == "cpu" and not mean.requires_grad
        (y.square().sum() + mean.sum()).backward()
    for a, b in zip(ours.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad)
    assert all(graph.reason == "" for graph in report().graphs[before:])


def test_results_on_the_cpu_that_share_memory_run_eagerly():
    def function(x):
        y = (x * 2).cpu()
        return y, y[1:]

    (whole, part), record = _run(function, torch.ones(3, device="hpu"))
    assert record.reason == "the graph returns two tensors on the CPU that share memory"
    whole.zero_()
    assert part.tolist() == [0, 0]


def test_a_view_of_an_input_on_the_cpu_is_one():
    given = torch.arange(6.0)
    (view, total), record = _run(
        lambda given, x: (given.view(2, 3), x + given[0]), given, torch.ones(2, device="hpu")
    )
    assert record.reason == ""
    given.zero_()
    assert view.tolist() == [[0, 0, 0], [0, 0, 0]] and total.tolist() == [1, 1]
