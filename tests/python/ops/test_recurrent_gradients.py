"""Gradients of nn.LSTM, nn.GRU and nn.RNN: recipes where they are compiled.

Guide rows: FALL-1, FALL-2 (eager segments).
"""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import fresh_process
from recurrent_models import MODELS, assert_same, leaves, on_hpu, with_gradients
from torch import nn

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.ops import recurrent


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", [name for name in MODELS if "dropout" not in name])
def test_gradients(name, given):
    torch.manual_seed(0)
    model = MODELS[name]()
    x = torch.randn(5, 3, 6, requires_grad=True)
    state = None
    if given:
        state = model(x)[1]
        state = tuple(map(torch.randn_like, leaves(state)))
        state = state if "LSTM" in name else state[0]
        for tensor in leaves(state):
            tensor.requires_grad_()
    expected = with_gradients(model, x, state)
    fresh_process()
    compiled = torch.compile(copy.deepcopy(model).to("hpu"), backend="hpu_backend")
    assert_same(with_gradients(compiled, on_hpu(x), on_hpu(state)), expected)
    (graph,) = report().graphs
    assert (graph.origin, graph.eager_nodes) == ("compiled", 0)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_only_the_last_state_gets_a_gradient(kind):
    torch.manual_seed(0)
    model = getattr(nn, kind)(6, 8, 2)
    x = torch.randn(5, 3, 6)

    def loss(model, x):
        return leaves(model(x)[1])[-1].square().sum()

    loss(model, x).backward()
    fresh_process()
    ours = copy.deepcopy(model).to("hpu")
    torch.compile(loss, backend="hpu_backend")(ours, x.to("hpu")).backward()
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-5, atol=1e-5)


def test_gradients_of_gradients():
    """The graph that results when a layer is differentiated twice."""
    torch.manual_seed(0)
    x, state = torch.randn(4, 2, 3), torch.randn(2, 5)
    weights = [torch.randn(15, n) for n in (3, 5)]

    def second(run, x, state, weights):
        given = [t.detach().requires_grad_() for t in (x, state, *weights)]
        (grad,) = torch.autograd.grad(run(*given).square().sum(), given[0], create_graph=True)
        return torch.autograd.grad(grad.square().sum(), given)

    def whole(x, state, *weights):
        return torch.gru(x, state.unsqueeze(0), weights, False, 1, 0.0, True, False, False)[0]

    def layer(*tensors):
        return recurrent._Layer.apply("gru", 1, False, *tensors)[0]

    expected = second(whole, x, state, weights)
    ours = second(layer, x.to("hpu"), state.to("hpu"), [w.to("hpu") for w in weights])
    for p, q in zip(ours, expected, strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=1e-4, atol=1e-4)


def test_gradients_of_more_steps_than_a_recipe_takes():
    torch.manual_seed(0)
    model = nn.RNN(2, 2)
    x = torch.randn(4097, 1, 2, requires_grad=True)
    expected = with_gradients(model, x, None)
    fresh_process()
    compiled = torch.compile(copy.deepcopy(model).to("hpu"), backend="hpu_backend")
    for p, q in zip(with_gradients(compiled, on_hpu(x), None), expected, strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=1e-4, atol=1e-3)
    assert report().graphs[-1].eager_nodes == 2


@pytest.mark.parametrize("name", ["LSTM, projected, batch first", "GRU", "RNN, relu"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_under_autocast(name, dtype):
    torch.manual_seed(0)
    model = MODELS[name]()
    x = torch.randn(5, 3, 6, requires_grad=True)
    expected = with_gradients(model, x, None)
    fresh_process()
    ours = copy.deepcopy(model).to("hpu")

    def run(x, state):
        with torch.autocast("hpu", dtype):
            return ours(x, state)

    compiled = torch.compile(run, backend="hpu_backend")
    compiled.parameters = ours.parameters
    found = with_gradients(compiled, on_hpu(x), None)
    torch.compiler.reset()
    eager = run(on_hpu(x), None)
    assert [r.dtype for r in leaves(eager)] == [r.dtype for r in found[: len(leaves(eager))]]
    for p, q in zip(found, expected, strict=True):
        bound = 0.04 * q.abs().max().item()
        torch.testing.assert_close(p.float().cpu(), q, rtol=0, atol=bound)


def test_dropout_between_layers_draws_as_eager_does():
    torch.manual_seed(0)
    model = nn.LSTM(6, 8, 2, dropout=0.5).to("hpu")
    x = torch.randn(5, 3, 6, device="hpu")
    for grad in (True, False):
        fresh_process()
        compiled = torch.compile(model, backend="hpu_backend")
        with torch.set_grad_enabled(grad):
            torch.manual_seed(3)
            first, other = compiled(x)[0], compiled(x)[0]
            torch.manual_seed(3)
            torch.testing.assert_close(first, model(x)[0], rtol=1e-5, atol=1e-6)
        assert not torch.equal(first, other)
        (graph,) = report().graphs
        assert graph.eager_nodes == (0 if grad else 1)


def test_gradients_of_gradients_in_one_graph():
    """The steps that the second derivative needs are recorded, not a call of the layer again."""
    torch.manual_seed(0)
    model = nn.GRU(3, 5)
    x = torch.randn(4, 2, 3)

    def penalty(model, x):
        # The state depends on the input: its way to the gradient must count once.
        state = x.mean(0, keepdim=True).repeat(1, 1, 2)[..., :5].tanh()
        y = model(x, state)[0]
        return torch.autograd.grad(y.square().sum(), x, create_graph=True)[0].square().sum()

    def second(model, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(penalty(model, x), [x, *model.parameters()])

    expected = second(model, x)
    ours = copy.deepcopy(model).to("hpu")
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        found = torch.compile(second, backend="hpu_backend")(ours, x.to("hpu"))
    for p, q in zip(found, expected, strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_forward_mode_differentiation(kind):
    torch.manual_seed(0)
    model = getattr(nn, kind)(3, 5)
    x, tangent = torch.randn(4, 2, 3), torch.randn(4, 2, 3)
    step = 1e-3
    with torch.no_grad():
        expected = (model(x + step * tangent)[0] - model(x - step * tangent)[0]) / (2 * step)
    ours = copy.deepcopy(model).to("hpu")
    given = (x.to("hpu"),), (tangent.to("hpu"),)
    _, found = torch.func.jvp(lambda x: ours(x)[0], *given)
    torch.testing.assert_close(found.detach().cpu(), expected, rtol=1e-2, atol=1e-3)
