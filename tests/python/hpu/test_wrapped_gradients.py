"""Gradients through the captured calls of wrapped modules."""

from __future__ import annotations

import copy

import pytest
import torch
from both_modes import close, matrix
from both_modes import mode as mode
from torch import nn
from wrapping_case import layers, on_hpu, wrapped
from wrapping_case import told as told

import habana_frameworks.torch as ht


def test_gradients():
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module)
    for rows in (3, 5, 3, 5):
        x, h = matrix(rows, 4).requires_grad_(), on_hpu(rows, 4, grad=True)
        for m, batch in ((model, x), (module, h)):
            m(batch).square().mean().backward()  # gradients accumulate
        close(h.grad, x.grad)
        for ours, theirs in zip(module.parameters(), model.parameters(), strict=True):
            close(ours.grad, theirs.grad)
            with torch.no_grad():
                ours -= 0.1 * ours.grad
                theirs -= 0.1 * theirs.grad
    assert module.forward.graphs.captures == 2
    assert module.forward.graphs.replays == 4


def test_two_forwards_before_a_backward():
    """The mean keeps the gradients small, whose terms cancel: in float32 they have the error of
    much larger numbers."""
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module)
    for m, place in ((model, lambda t: t), (module, lambda t: t.to("hpu"))):
        (m(place(matrix(3, 4))) - m(place(matrix(3, 4).flip(0) + 1))).square().mean().backward()
    for ours, theirs in zip(module.parameters(), model.parameters(), strict=True):
        close(ours.grad, theirs.grad)


def test_a_frozen_parameter_and_one_that_is_thawed():
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module)
    for frozen in (True, False):
        for m, x in ((model, matrix(3, 4)), (module, on_hpu(3, 4))):
            m[0].weight.requires_grad_(not frozen)
            m.zero_grad()
            m(x).square().sum().backward()
        assert (module[0].weight.grad is None) == frozen
        close(module[3].weight.grad, model[3].weight.grad)
    close(module[0].weight.grad, model[0].weight.grad)


def test_a_result_that_is_changed_before_its_backward_is_noticed():
    counted, _ = wrapped(lambda x: x.tanh())
    x = on_hpu(3, grad=True)
    counted(x).sum().backward()
    result = counted(x)
    with torch.no_grad():
        result.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_second_derivatives_are_refused():
    counted, _ = wrapped(lambda x: x.sin())
    x = on_hpu(3, grad=True)
    with pytest.raises(RuntimeError, match="has no second derivative: .*bypass_hpu_graphs=True"):
        torch.autograd.grad(counted(x).sum(), x, create_graph=True)
    result = counted(x, bypass_hpu_graphs=True)
    (gradient,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    gradient.sum().backward()
    close(x.grad, -matrix(3).sin())


def test_recurrent_modules():
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 5, batch_first=True)
    module = ht.hpu.wrap_in_hpu_graph(copy.deepcopy(lstm).to("hpu"))
    for shift in (0.0, 1.0):
        for m, x in ((lstm, matrix(2, 3, 4)), (module, on_hpu(2, 3, 4))):
            m.zero_grad()
            output, (hidden, _) = m(x + shift)
            (output.sum() + hidden.square().sum()).backward()
        for ours, theirs in zip(module.parameters(), lstm.parameters(), strict=True):
            close(ours.grad, theirs.grad)
    assert module.forward.graphs.captures == 1


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens):
            return self.head(self.table(tokens))

    model = Tied()
    module = ht.hpu.wrap_in_hpu_graph(copy.deepcopy(model).to("hpu"))
    tokens = torch.tensor([0, 3, 1])
    for _ in range(2):
        for m, x in ((model, tokens), (module, tokens.to("hpu"))):
            m.zero_grad()
            m(x).square().sum().backward()
        close(module.head.weight.grad, model.head.weight.grad)
    assert module.head.weight is module.table.weight


def test_a_function_of_a_module(told):
    model, module = layers()
    method = ht.hpu.graphs.wrap_in_hpu_graph_func(module.forward)
    close(method(on_hpu(2, 4)), model(matrix(2, 4)))
    assert method.graphs.captures == 1
    closure = ht.hpu.graphs.wrap_in_hpu_graph_func(lambda x: module(x))
    closure(on_hpu(2, 4)).sum().backward()  # the gradients of the module are not lost
    assert module[3].bias.grad is not None
    assert "it needs a gradient of a tensor that is no argument" in told()[-1]
    with torch.no_grad():
        closure(on_hpu(2, 4))
    assert closure.graphs.captures == 1


class Distances(nn.Module):
    def forward(self, x):
        return nn.functional.pdist(x)


class Chosen(nn.Module):
    def forward(self, x):
        return x.masked_scatter(x.detach()[:, :1] > 0, x * 2)


@pytest.mark.parametrize(
    ("last", "operator"),
    [(Distances, "aten::_pdist_backward"), (Chosen, "aten::masked_select")],
)
def test_a_backward_that_cannot_be_captured_runs_without_a_graph(last, operator, told):
    first, first_there = layers()
    model, module = nn.Sequential(first, last()), nn.Sequential(first_there, last())
    ht.hpu.wrap_in_hpu_graph(module)
    for _ in range(2):
        model(matrix(3, 4)).mean().backward()
        module(on_hpu(3, 4)).mean().backward()
    for ours, theirs in zip(module.parameters(), model.parameters(), strict=True):
        close(ours.grad, theirs.grad)
    (line,) = told()
    assert operator in line
    assert module.forward.graphs.captures == 0
    with torch.no_grad():  # the forward alone can be captured
        close(module(on_hpu(3, 4)), model(matrix(3, 4)))
    assert module.forward.graphs.captures == 1
