"""The memory of a training step: a backward in parts frees the tensors that it has read (decision
0030)."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from training_case import compiled, leaf, matrix, only_graph

LAYERS, ROWS, WIDTH = 8, 1024, 1024
GRADIENTS = LAYERS * (WIDTH * WIDTH + WIDTH) * 4


def make_run():
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]
    model = nn.Sequential(*layers).to("hpu")
    x = torch.randn(ROWS, WIDTH).to("hpu")
    run = compiled(model)
    for _ in range(2):  # afterwards workspaces and constants exist
        run(x).sum().backward()
        model.zero_grad()
    return model, lambda: run(x).sum()


@pytest.fixture(scope="module")
def partitioned():
    return make_run()


def peak_of(function):
    torch.hpu.synchronize()
    torch.hpu.reset_peak_memory_stats()
    before = torch.hpu.memory_allocated()
    function()
    return torch.hpu.max_memory_allocated() - before


def test_what_is_saved_makes_room_for_gradients(partitioned):
    model, run = partitioned
    before = torch.hpu.memory_allocated()
    loss = run()
    saved = torch.hpu.memory_allocated() - before
    assert saved > GRADIENTS / 2
    peak = peak_of(loss.backward)
    model.zero_grad()
    # A retained graph keeps the tensors that it saved, so all gradients need additional memory.
    retained = run()
    whole = peak_of(lambda: retained.backward(retain_graph=True))
    assert whole >= GRADIENTS
    assert peak < whole - saved / 2
    model.zero_grad()
    # those of the forward, and those in which the backward differs
    assert only_graph().recipes >= 3


def test_a_launch_gives_its_workspace_back():
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, 8)).to("hpu")
    x = torch.randn(ROWS, WIDTH).to("hpu")
    run = compiled(layer)
    with torch.no_grad():
        run(x)
        torch.hpu.synchronize()
        torch.hpu.reset_peak_memory_stats()
        before = torch.hpu.memory_allocated()
        out = run(x)
        assert torch.hpu.memory_allocated() - before == out.nbytes
        assert torch.hpu.max_memory_allocated() - before >= out.nbytes + ROWS * 4 * WIDTH * 4


def test_gradients_of_a_retained_graph_are_those_of_the_last_time(partitioned):
    model, run = partitioned
    loss = run()
    loss.backward(retain_graph=True)
    once = [parameter.grad.clone() for parameter in model.parameters()]
    loss.backward()
    for parameter, gradient in zip(model.parameters(), once, strict=True):
        assert torch.equal(parameter.grad, 2 * gradient)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    model.zero_grad()


def test_what_a_hook_of_saved_tensors_holds_stays(partitioned):
    model, run = partitioned
    held = []

    def pack(tensor):
        held.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = run()
    before = [tensor.detach().clone() for tensor in held]
    loss.backward()
    assert len(held) > LAYERS
    for tensor, copy in zip(held, before, strict=True):
        assert torch.equal(tensor, copy)
    model.zero_grad()


def test_what_an_eager_step_was_given_stays():
    def function(x, w):
        h = x @ w
        return h.sin().sum(), h.view(torch.int32)  # bytes of the tensors that the backward reads

    x, w = matrix(4, 4, seed=1).to("hpu"), leaf(4, 4)
    loss, seen = compiled(function)(x, w)
    before = seen.clone()
    loss.backward()
    assert torch.equal(seen, before)
    torch.testing.assert_close(seen.cpu().view(torch.float32), matrix(4, 4, seed=1) @ matrix(4, 4))


def test_a_backward_that_failed_on_its_way_is_not_repeated():
    w = leaf()
    out = compiled(lambda w: (w @ w).sin())(w)

    def fail(*_):
        raise ValueError("a hook fails")

    handle = out.grad_fn.register_hook(fail)
    with pytest.raises(ValueError, match="a hook fails"):
        out.sum().backward()
    handle.remove()
    with pytest.raises(RuntimeError, match="has released what the graph saved"):
        out.sum().backward()


def test_gradients_are_those_of_the_cpu(partitioned):
    model, run = partitioned
    run().backward()
    reference = nn.Sequential(
        *[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]
    )
    reference.load_state_dict({name: value.cpu() for name, value in model.state_dict().items()})
    torch.manual_seed(0)
    for _ in range(LAYERS):  # making the weights drew numbers before the input did
        nn.Linear(WIDTH, WIDTH)
    reference(torch.randn(ROWS, WIDTH)).sum().backward()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        difference = (ours.grad.cpu() - theirs.grad).abs().max()
        assert difference <= 1e-4 * theirs.grad.abs().max()
    model.zero_grad()
