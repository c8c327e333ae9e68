"""Training graphs and state that outlives a call: statistics, random numbers, memory, stored
programs."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
import torch.nn.functional as F
from exact_reference import ExactReference
from processes import output_of
from torch import nn
from training_case import assert_close, compiled, leaf, matrix, only_graph

from habana_frameworks.torch.dynamo import report


@pytest.mark.parametrize("grad", [True, False])
def test_batch_norm_updates_its_statistics(grad):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    device_model = copy.deepcopy(model).to("hpu")
    version = device_model[1].running_mean._version
    run = compiled(device_model)
    x = matrix(2, 3, 8, 8)
    for _ in range(2):
        with torch.set_grad_enabled(grad):
            ours, theirs = run(x.to("hpu")), model(x)
        if grad:
            ours.square().sum().backward()
            theirs.square().sum().backward()
    assert_close(ours, theirs, 1e-4, 1e-5)
    for ours, theirs in zip(device_model.buffers(), model.buffers(), strict=True):
        assert_close(ours, theirs)
    assert device_model[1].running_mean._version > version
    if grad:
        # The gradient before a normalisation is nearly 0: below 1e-4 there is nothing but rounding.
        for ours, theirs in zip(device_model.parameters(), model.parameters(), strict=True):
            assert_close(ours.grad, theirs.grad, 1e-3, 1e-3)


def test_dropout_draws_as_eager_does_and_masks_its_gradient():
    model = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5)).to("hpu")
    run = compiled(model)
    x = matrix(2, 8).to("hpu")

    def seeded(function):
        torch.manual_seed(3)
        return function(x)

    first, again, eager, other = seeded(run), seeded(run), seeded(model), run(x)
    assert torch.equal(first, again)
    assert torch.equal(first == 0, eager == 0)
    assert not torch.equal(first, other)
    (gradient,) = torch.autograd.grad(first.sum(), model[0].bias)
    assert_close(gradient, ((first != 0).sum(0) * 2.0).cpu())


def test_draws_keep_their_order_behind_other_work():
    """The first draw waits for a product, the second one for nothing."""

    def function(x):
        return F.dropout(x @ x, 0.5), F.dropout(x, 0.5)

    run = compiled(function)
    x = matrix().to("hpu").requires_grad_()
    torch.manual_seed(3)
    ours = run(x)
    torch.manual_seed(3)
    theirs = function(x)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine == 0, other == 0)


def test_autocast():
    model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 2))
    device_model = copy.deepcopy(model).to("hpu")
    run = compiled(device_model)
    x = matrix(4, 8)
    with torch.autocast("hpu", torch.bfloat16):
        ours = run(x.to("hpu")).float().square().mean()
    ours.backward()
    only_graph()
    gradients = [p.grad for p in device_model.parameters()]
    assert all(grad.dtype == torch.float32 for grad in gradients)
    names = dict(model.named_parameters())

    def step(x, *weights):
        leaves = [w.detach().requires_grad_() for w in weights]
        with torch.autocast("cpu", torch.bfloat16):
            y = torch.func.functional_call(model, dict(zip(names, leaves, strict=True)), x)
        loss = y.float().square().mean()
        return [loss, *torch.autograd.grad(loss, leaves)]

    given = [x, *names.values()]
    exact = ExactReference(step, *given, coarsest=torch.bfloat16)
    exact.check([ours, *gradients], step(*given))


def test_steps_are_bit_identical():
    def gradients():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).to("hpu")
        run = compiled(model)
        run(matrix(33, 64).to("hpu")).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    for ours, theirs in zip(gradients(), gradients(), strict=True):
        assert torch.equal(ours, theirs)


class Broken(nn.Module):
    """Two graphs, with a part between them that is not compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        x = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(x * 1.5)


SCALER = torch.amp.GradScaler("hpu", init_scale=4.0)


def plain_step(model, run, optimizer, x):
    optimizer.zero_grad()
    run(x).square().mean().backward()
    optimizer.step()


def clipped_step(model, run, optimizer, x):
    """Two gradients are added up and clipped."""
    optimizer.zero_grad()
    for part in x.chunk(2):
        run(part).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()


def scaled_step(model, run, optimizer, x):
    optimizer.zero_grad()
    with torch.autocast("hpu", torch.bfloat16):
        loss = run(x).float().square().mean()
    SCALER.scale(loss).backward()
    SCALER.step(optimizer)
    SCALER.update()


@pytest.mark.parametrize("steps", [60, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", [plain_step, clipped_step, scaled_step])
@pytest.mark.parametrize("broken", [False, True], ids=["one graph", "two graphs"])
def test_memory_does_not_grow(broken, step, steps):
    """The device memory and the tensors that the process knows; tensors of earlier tests may be
    freed."""
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    model = (Broken() if broken else whole).to("hpu")
    run = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = matrix(32, 64).to("hpu")
    seen = []
    for number in range(steps):
        step(model, run, optimizer, x)
        if number in (20, steps - 1):
            gc.collect()
            torch.hpu.synchronize()
            objects = sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())
            seen.append((torch.hpu.memory_allocated(), objects))
    assert all(late <= early for early, late in zip(*seen, strict=True)), seen
    assert all(graph.origin != "eager" for graph in report().graphs)
    assert len(report().graphs) >= (2 if broken else 1)


def test_a_program_outlives_its_function():
    """The node of a pending backward keeps it."""
    w = leaf()
    run = compiled(lambda w: (w @ w).sum())
    loss = run(w)
    del run
    from habana_frameworks.torch.dynamo.programs.service import service

    service.forget_programs()
    torch._dynamo.reset()
    gc.collect()
    loss.backward()
    assert_close(w.grad, (torch.ones(4, 4) @ matrix().t()) + (matrix().t() @ torch.ones(4, 4)))


def test_the_next_process_finds_the_program():
    """The key says which inputs require gradients; nothing is captured again."""
    from habana_frameworks.torch.dynamo.programs.service import service

    def function(w, x):
        return (w * x).cosh().sum()

    w, x = leaf(5, 3), matrix(5, 3, seed=1).to("hpu")
    compiled(function)(w, x).backward()
    service.forget_programs()
    w.grad = None
    compiled(function)(w, x).backward()
    graph = only_graph()
    assert (graph.origin, graph.capture_ms, graph.recipes) == ("store", 0, 2)
    expected = (matrix(5, 3) * matrix(5, 3, seed=1)).sinh() * matrix(5, 3, seed=1)
    assert_close(w.grad, expected)
    with torch.no_grad():
        compiled(function)(w, x)
    assert only_graph().recipes == 1  # another key, another program


def test_gradcheck_in_f64():
    """The device has no f64, so the ops are eager steps, with recipes between them."""
    x = matrix(3, 4).double().to("hpu").requires_grad_()
    assert torch.autograd.gradcheck(compiled(lambda x: (x.sin() * x).sum(1)), (x,))
    assert report().graphs[-1].origin != "eager"


def test_an_optimizer_compiles_without_inductor():
    """Dynamo asks Inductor about CUDA graphs, which imports all of it."""
    code = (
        "import sys, torch, habana_frameworks.torch\n"
        "parameter = torch.nn.Parameter(torch.ones(4, device='hpu'))\n"
        "parameter.grad = torch.ones_like(parameter)\n"
        "optimizer = torch.optim.AdamW([parameter])\n"
        "torch.compile(optimizer.step, backend='hpu_backend')()\n"
        "assert (parameter != 1).all()\n"
        "assert 'torch._inductor.compile_fx' not in sys.modules\n"
    )
    output_of(code, fresh=True)
