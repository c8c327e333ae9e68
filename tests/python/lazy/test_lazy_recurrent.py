"""Recurrent layers in lazy mode and in HPU graphs: a layer is one recorded call for each direction,
and one for its gradients, however many steps there are (MODE-19)."""

from __future__ import annotations

import copy

import pytest
import torch
from lazy_case import Counts, lazy_mode, mark_step, recorded
from recurrent_models import MODELS, assert_same, leaves, on_hpu, with_gradients
from torch import nn

WITHOUT_DROPOUT = [name for name in MODELS if "dropout" not in name]


def calls_of_forward(model: nn.Module, steps: int) -> int:
    x = torch.randn(steps, 3, 6).to("hpu")
    before = recorded()
    results = model(x)
    count = recorded() - before
    del results
    mark_step()
    return count


@pytest.mark.parametrize("name", WITHOUT_DROPOUT)
@pytest.mark.parametrize("given", [False, True])
def test_gradients(name, given):
    torch.manual_seed(0)
    model = MODELS[name]()
    x = torch.randn(5, 3, 6, requires_grad=True)
    state = None
    if given:
        state = tuple(map(torch.randn_like, leaves(model(x)[1])))
        state = state if "LSTM" in name else state[0]
        for tensor in leaves(state):
            tensor.requires_grad_()
    expected = with_gradients(model, x, state)
    ours = copy.deepcopy(model).to("hpu")
    with lazy_mode():
        counts = Counts()
        assert_same(with_gradients(ours, on_hpu(x), on_hpu(state)), expected)
        assert counts.runs_by_call == 0


@pytest.mark.parametrize("name", MODELS)
def test_the_recorded_calls_do_not_depend_on_the_steps(name):
    model = MODELS[name]().to("hpu")
    with lazy_mode():
        few, many = calls_of_forward(model, 4), calls_of_forward(model, 40)
    assert few == many


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    torch.manual_seed(0)
    model = MODELS["LSTM, both directions, two layers"]()
    x = torch.randn(5, 3, 6)
    ours = copy.deepcopy(model).to("hpu")

    def loss(model, x):
        with torch.autocast(x.device.type, dtype):
            return model(x)[0].float().square().mean()

    with lazy_mode():
        found = loss(ours, x.to("hpu"))
        found.backward()
        mark_step()
    expected = loss(ours, x.to("hpu"))
    gradients = torch.autograd.grad(expected, tuple(ours.parameters()))
    torch.testing.assert_close(found.cpu(), expected.cpu(), rtol=1e-2, atol=1e-3)
    for parameter, gradient in zip(ours.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), gradient.cpu(), rtol=5e-2, atol=2e-3)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_second_derivatives(kind):
    torch.manual_seed(0)
    model = getattr(nn, kind)(3, 5)
    x = torch.randn(4, 2, 3)

    def second(model, x):
        x = x.detach().requires_grad_()
        (first,) = torch.autograd.grad(model(x)[0].square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, *model.parameters()])

    expected = second(model, x)
    with lazy_mode():
        found = second(copy.deepcopy(model).to("hpu"), x.to("hpu"))
        mark_step()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)


def test_more_steps_than_a_recipe_takes():
    torch.manual_seed(0)
    model = nn.RNN(2, 2)
    x = torch.randn(4097, 1, 2, requires_grad=True)
    expected = with_gradients(model, x, None)
    with lazy_mode():
        found = with_gradients(copy.deepcopy(model).to("hpu"), on_hpu(x), None)
        mark_step()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=1e-4, atol=1e-3)


def test_packed_sequences():
    torch.manual_seed(0)
    model = nn.GRU(6, 8)
    x = torch.randn(5, 3, 6)
    lengths = torch.tensor([5, 3, 2])

    def gradients(model, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        out, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0])
        return torch.autograd.grad(out.square().sum(), tuple(model.parameters()))

    expected = gradients(model, x)
    with lazy_mode():
        found = gradients(copy.deepcopy(model).to("hpu"), x.to("hpu"))
        mark_step()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["LSTM", "GRU, both directions, two layers"])
def test_graphed_training_step(name):
    """A capture with forward, backward and update; each replay is a step."""
    torch.manual_seed(0)
    model = MODELS[name]()
    ours = copy.deepcopy(model).to("hpu")
    x = torch.randn(4, 5, 6)
    given = x.to("hpu")

    def step(model, x):
        loss = model(x)[0].square().mean()
        for parameter, grad in zip(
            model.parameters(), torch.autograd.grad(loss, tuple(model.parameters())), strict=True
        ):
            with torch.no_grad():
                parameter -= 0.1 * grad
        return loss

    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        loss = step(ours, given)
    losses = [loss.item()]
    for _ in range(2):
        graph.replay()
        losses.append(loss.item())
    assert losses == pytest.approx([step(model, x).item() for _ in range(3)], rel=1e-5)


def test_a_compiled_region_keeps_its_layers():
    """Dynamo does not look into what a recorded layer calls."""
    model = nn.LSTM(6, 8).to("hpu")
    x = torch.randn(4, 2, 6).to("hpu")
    with lazy_mode():
        compiled = torch.compile(model, backend="eager")
        torch.testing.assert_close(compiled(x)[0].cpu(), model(x)[0].cpu())
