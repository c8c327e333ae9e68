"""Gradients of compiled graphs that are differentiated again: the graph runs eagerly for them
(dynamo/programs/differentiation.py), or a second derivative raises. Compared with CPU eager.

Guide row: MODE-3 (eager mode).
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from training_case import assert_close, compiled, leaf, matrix, only_graph

from habana_frameworks.torch.dynamo.programs.service import service


def both(function, *sizes: int, **options):
    """The function compiled and eager, with a leaf for each."""
    return (
        (compiled(function, **options), leaf(*sizes)),
        (function, matrix(*sizes).requires_grad_()),
    )


def second(function, w, allow_unused: bool):
    (gradient,) = torch.autograd.grad(function(w), w, create_graph=True)
    return torch.autograd.grad(gradient.sin().sum(), w, allow_unused=allow_unused)[0]


FUNCTIONS = {
    "product": lambda w: (w @ w).sin().sum(),
    "softmax": lambda w: (w.softmax(-1) * w).square().sum(),
    "norm": lambda w: F.layer_norm(w, (4,)).pow(3).sum(),
    "activation": lambda w: (F.gelu(w) * F.silu(w)).sum(),
    "reduction": lambda w: w.var(0).log().sum() + w.logsumexp(1).sum(),
    "views": lambda w: (w.t().reshape(-1)[::3] ** 3).sum(),
    "pooled": lambda w: (F.max_pool2d(w[None, None], 2) ** 3).sum(),
    "branch": lambda w: torch.where(w > 0, w**3, w.exp()).sum(),
}


@pytest.mark.parametrize("allow_unused", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_second_derivative_is_that_of_eager(name, allow_unused):
    ours, theirs = (second(f, w, allow_unused) for f, w in both(FUNCTIONS[name]))
    assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    only_graph()


def test_three_times():
    def third(function, w):
        y = function(w)
        for _ in range(3):
            (y,) = torch.autograd.grad(y.sum(), w, create_graph=True)
        return y

    ours, theirs = (third(f, w) for f, w in both(lambda w: w**5 + w.sin()))
    assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def critic() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)
    )


def penalty_step(model, run, real, fake, mix, optimizer):
    """WGAN-GP: the norm of a gradient is part of the loss."""
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    score = run(between)
    (gradient,) = torch.autograd.grad(
        score, between, torch.ones_like(score), create_graph=True, retain_graph=True
    )
    loss = run(fake).mean() - run(real).mean() + 10 * (gradient.norm(2, 1) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def test_gradient_penalty_training():
    cpu = critic()
    device = copy.deepcopy(cpu).to("hpu")
    run = compiled(device)
    losses = []
    for model, call, kind in ((cpu, cpu, "cpu"), (device, run, "hpu")):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        data = [matrix(6, 4, seed=i).to(kind) for i in (1, 2)]
        mix = torch.rand(6, 1, generator=torch.Generator().manual_seed(5)).to(kind)
        losses.append([penalty_step(model, call, *data, mix, optimizer) for _ in range(4)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    for ours, theirs in zip(device.parameters(), cpu.parameters(), strict=True):
        assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_through_a_graph_break():
    """Only the graphs hold the input of the second graph."""

    def function(w):
        y = (w * w).sin()
        torch._dynamo.graph_break()
        return (y * y).sum()

    ours, theirs = (second(f, w, False) for f, w in both(function))
    assert_close(ours, theirs)


def test_hessian_vector_products_and_hessians():
    def function(w):
        return (w.tanh() @ w).pow(2).sum()

    v = matrix(3, 3, seed=9)
    run, w = compiled(function), matrix(3, 3)
    ours = torch.autograd.functional.vhp(run, w.to("hpu"), v.to("hpu"))[1]
    assert_close(ours, torch.autograd.functional.vhp(function, w, v)[1], 1e-4, 1e-4)
    for vectorize in (False, True):
        ours = torch.autograd.functional.hessian(run, w.to("hpu"), vectorize=vectorize)
        theirs = torch.autograd.functional.hessian(function, w)
        assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_batches_of_gradients():
    def rows(function, w):
        y = function(w)
        basis = torch.eye(4, device=w.device)
        return torch.autograd.grad(y, w, basis, is_grads_batched=True)[0]

    ours, theirs = (rows(f, w) for f, w in both(lambda w: w.sin().sum(1)))
    assert_close(ours, theirs)


def test_gradgradcheck():
    def function(w, v):
        return (w * v).tanh().sum(0)

    w, v = (matrix(2, 3, seed=i).double().to("hpu").requires_grad_() for i in (0, 1))
    run = compiled(function)
    assert torch.autograd.gradcheck(run, (w, v))
    assert torch.autograd.gradgradcheck(run, (w, v))


def test_the_same_numbers_are_drawn_again():
    torch.hpu.manual_seed(7)
    w = leaf(16, 16)
    run = compiled(lambda w: F.dropout(w, 0.5).pow(3))
    y = run(w)
    state = torch.hpu.get_rng_state()
    (gradient,) = torch.autograd.grad(y.sum(), w, create_graph=True)
    assert torch.equal(torch.hpu.get_rng_state(), state)
    (again,) = torch.autograd.grad(gradient.sum(), w)
    mask = (y != 0).float() * 2
    torch.testing.assert_close(gradient, 3 * w.square() * mask**3)
    torch.testing.assert_close(again, 6 * w * mask**3)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_statistics_are_counted_once(momentum):
    torch.manual_seed(0)
    cpu = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=momentum), nn.Tanh())
    device = copy.deepcopy(cpu).to("hpu")
    found = []
    for model, run, kind in ((cpu, cpu, "cpu"), (device, compiled(device), "hpu")):
        x = matrix(5, 4).to(kind).requires_grad_()
        (gradient,) = torch.autograd.grad(run(x).square().sum(), x, create_graph=True)
        gradient.square().sum().backward()
        found.append((x.grad.cpu(), model[0].weight.grad.cpu(), dict(model.named_buffers())))
    assert_close(found[1][0], found[0][0], 1e-3, 1e-4)
    assert_close(found[1][1], found[0][1], 1e-3, 1e-4)
    for name, buffer in found[0][2].items():
        assert_close(found[1][2][name].float(), buffer.float())


def test_a_result_that_depends_on_what_was_written_raises():
    state = torch.ones(4, 4).to("hpu")

    def function(w):
        y = (w * w + state).sum()
        state.add_(1)
        return y

    w = leaf()
    (gradient,) = torch.autograd.grad(compiled(function)(w), w, create_graph=True)
    assert_close(gradient, 2 * matrix())  # the compiled one
    for allow_unused in (True, False):
        with pytest.raises(RuntimeError, match="it wrote to input . of the graph, whose value"):
            torch.autograd.grad(gradient.sum(), w, retain_graph=True, allow_unused=allow_unused)
    with pytest.raises(RuntimeError, match=r"torch\.compiler\.disable"):
        gradient.sum().backward()


def test_an_input_that_was_written_since_raises():
    w, x = leaf(), matrix(seed=1).to("hpu")
    loss = compiled(lambda w, x: (w * w + x).sum())(w, x)  # x is not saved
    x.add_(1)
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    assert_close(gradient, 2 * matrix())
    with pytest.raises(RuntimeError, match="has been written since"):
        torch.autograd.grad(gradient.sum(), w, allow_unused=True)


def test_behind_hooks_of_saved_tensors_it_raises():
    w = leaf()
    run = compiled(lambda w: (w.sin() * w).sum())
    with torch.autograd.graph.save_on_cpu():
        loss = run(w)
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    with pytest.raises(RuntimeError, match="saved_tensors_hooks"):
        torch.autograd.grad(gradient.sum(), w, allow_unused=True)


def test_a_released_graph_is_not_run_again():
    w = leaf()
    loss = compiled(lambda w: (w.sin() * w).sum())(w)
    torch.autograd.grad(loss, w, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(loss, w, create_graph=True)


def test_arguments_are_not_held_behind_the_backward():
    def peak(create_graph):
        w, x = leaf(4, 4), matrix(4, 4, seed=1).to("hpu")
        run = compiled(lambda w, x: (w.sin() + x).sum())
        loss = run(w, x)
        loss.backward(create_graph=create_graph)
        before = torch.hpu.memory_allocated()
        del x
        return before - torch.hpu.memory_allocated(), loss

    freed, loss = peak(False)
    assert freed > 0
    assert loss.grad_fn is not None


def test_one_tensor_given_twice():
    def twice(function):
        w = matrix().to("hpu" if function is not plain else "cpu").requires_grad_()
        (gradient,) = torch.autograd.grad(function(w, w), w, create_graph=True)
        return torch.autograd.grad(gradient.sum(), w)[0]

    def plain(a, b):
        return (a * a * b).sum()

    assert_close(twice(compiled(plain)), twice(plain))


def test_autocast_is_that_of_the_call():
    linear = nn.Linear(4, 4)
    device = copy.deepcopy(linear).to("hpu")

    def run(function, x):
        with torch.autocast(x.device.type, torch.bfloat16):
            y = function(x)
        (gradient,) = torch.autograd.grad(y.float().square().sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), x)[0]

    ours = run(compiled(device), leaf(3, 4))
    assert_close(ours, run(device, leaf(3, 4)).cpu(), rtol=2e-2, atol=2e-2)


def test_gradients_switched_on_inside_the_graph():
    def function(w):
        with torch.enable_grad():
            return (w * w * w).sum()

    w = leaf()
    with torch.no_grad():
        loss = compiled(function)(w)
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    assert_close(torch.autograd.grad(gradient.sum(), w)[0], 6 * matrix())


def test_sizes_that_change_and_the_store():
    run = compiled(lambda w: (w**3).sum())
    for rows in (2, 3, 5):
        assert_close(second(run, leaf(rows), False), _of_cubes(rows))
    service.forget_programs()
    assert_close(second(compiled(lambda w: (w**3).sum()), leaf(3), False), _of_cubes(3))


def _of_cubes(rows: int) -> torch.Tensor:
    return second(lambda w: (w**3).sum(), matrix(rows).requires_grad_(), False)
