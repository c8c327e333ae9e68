"""Outputs in the memory of inputs: autograd, and a write to them, must see the same as with eager's
outputs (graph/alias_form.h). Every case runs eagerly on the CPU and compiled on hpu.

Guide row: MODE-3 (eager mode).
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from training_case import assert_close, compiled, leaf, matrix, only_graph

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.programs.service import service


def no_grad_view(t):
    with torch.no_grad():
        return t.view(-1)


def no_grad_view_and_more(t):
    with torch.no_grad():
        part = t[1:]
    return part, t * 2


def half_and_half(t):
    with torch.no_grad():
        first = t.t()
    return first, t.t(), t.detach(), t


FUNCTIONS = {
    "detach": lambda t: t.detach(),
    "detach beside a product": lambda t: (t * 3, t.detach()),
    "detached view": lambda t: t.view(-1).detach(),
    "view of the detached": lambda t: t.detach().view(-1),
    "detach twice": lambda t: (t.detach(), t.detach()),
    "detached part": lambda t: (t[1:3].detach(), t.sum()),
    "detached transpose": lambda t: (t.detach().t(), t.t()),
    "data": lambda t: (t.data, t * 2),
    "detach, then require": lambda t: t.detach().requires_grad_(),
    "view": lambda t: t.view(-1),
    "view of the same shape": lambda t: t.view(4, 4),
    "alias": lambda t: torch.ops.aten.alias(t),
    "expanded": lambda t: t[0].expand(4, 4),
    "parts": lambda t: t.unbind(0),
    "itself": lambda t: t,
    "itself, contiguous": lambda t: (t.contiguous(), t.to(t.dtype)),
    "no_grad view": no_grad_view,
    "no_grad view beside a product": no_grad_view_and_more,
    "all of them": half_and_half,
    "detached operand": lambda t: (t.detach() * t, t.detach()),
    "dropout that is off": lambda t: (F.dropout(t, 0.5, False), F.dropout(t, 0.0), t * 2),
    "intermediate, and views of it": lambda t: (y := t * 2, y.view(-1), y.t().detach()),
}

INPUTS = {
    "intermediate": lambda x: x * 2,
    "leaf": lambda x: x,
    "detached": lambda x: x.detach() + 0,
}


def as_list(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def seen(function, made, device: str):
    """The effects of a call: for each output its flags and the error of a write to it; the
    gradients."""
    x = matrix().to(device).clone().requires_grad_()
    t = made(x)
    outputs = as_list(function(t))
    flags = [
        (o.requires_grad, o.is_leaf, o is t, o.data_ptr() == t.data_ptr(), o._version)
        for o in outputs
    ]
    weights = torch.arange(16.0, device=device) + 1
    loss = (t.reshape(-1) * weights).sum()
    for output in outputs:
        loss = loss + (output * output * weights[: output.numel()].view(output.shape)).sum()
    if loss.requires_grad:
        loss.backward()
    gradient = None if x.grad is None else x.grad.cpu()
    own = [None if o.grad_fn is not None or o.grad is None else o.grad.cpu() for o in outputs]
    return flags, gradient, own


@pytest.mark.parametrize("made", INPUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_flags_and_gradients_are_those_of_eager(name, made):
    function = FUNCTIONS[name]
    expected = seen(function, INPUTS[made], "cpu")
    found = seen(compiled(function), INPUTS[made], "hpu")
    assert found[0] == expected[0]
    torch.testing.assert_close(found[1], expected[1])
    torch.testing.assert_close(found[2], expected[2])
    assert report().eager_segments == 0


def written(function, device: str, index: int):
    """Writes to an output; returns the error, and what other readers of the input see."""
    x = matrix().to(device).clone().requires_grad_()
    t = x * 2
    product = t * t  # needs t as it is at this point
    output = as_list(function(t))[index]
    try:
        output.mul_(3)
    except RuntimeError as error:
        return str(error).partition(".")[0], None
    try:
        product.sum().backward()
    except RuntimeError:
        return "noticed", t._version
    return "not noticed", t._version


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("detach", 0),
        ("detached view", 0),
        ("detach beside a product", 1),
        ("view of the same shape", 0),
        ("no_grad view", 0),
        ("no_grad view beside a product", 0),
        ("view", 0),
        ("itself", 0),
        ("expanded", 0),
        ("all of them", 2),
        ("data", 0),
    ],
)
def test_writes_are_noticed_as_eager_notices_them(name, index):
    function = FUNCTIONS[name]
    assert written(compiled(function), "hpu", index) == written(function, "cpu", index)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_under_no_grad(name):
    """The caller's grad mode is off: a detached output may be written afterwards, a view not."""

    def run(function, device):
        x = matrix().to(device).clone().requires_grad_()
        t = x * 2
        with torch.no_grad():
            outputs = as_list(function(t))
        said = []
        for output in outputs:
            try:
                output.mul_(1)
                said.append("")
            except RuntimeError as error:
                said.append(str(error).partition(".")[0])
        return [(o.requires_grad, o is t) for o in outputs], said

    function = FUNCTIONS[name]
    assert run(compiled(function), "hpu") == run(function, "cpu")


def test_a_step_that_returns_its_loss_detached_behind_a_graph_break():
    def step(model, x):
        loss = model(x).square().sum()
        torch._dynamo.graph_break()
        return loss, loss.detach()

    def run(function, device):
        torch.manual_seed(0)
        model = nn.Linear(4, 2).to(device)
        loss, shown = function(model, matrix(3, 4).to(device))
        assert not shown.requires_grad
        (loss + 2 * shown).backward()
        return model.weight.grad.cpu(), shown.cpu()

    ours, theirs = run(compiled(step), "hpu"), run(step, "cpu")
    torch.testing.assert_close(ours, theirs)
    assert len(report().graphs) == 2


def test_a_module_that_keeps_its_state_detached():
    class Momentum(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.scale, self.scale.detach(), x.detach()

    module = Momentum().to("hpu")
    x = leaf(3, 4)
    out, kept, shown = compiled(module)(x)
    assert (out.requires_grad, kept.requires_grad, shown.requires_grad) == (True, False, False)
    (out.sum() + (kept * module.scale).sum() + (shown * x).sum()).backward()
    assert_close(module.scale.grad, matrix(3, 4).sum(0) + 1)
    assert_close(x.grad, 1 + matrix(3, 4))
    only_graph()


@pytest.mark.parametrize("train", [False, True])
def test_a_write_through_a_dropout_that_is_off(train):
    """PyTorch's decomposition copies the tensor that the op itself returns."""

    def function(w, t):
        y = F.dropout(t, 0.0 if train else 0.5, train)
        y.mul_(2)
        return (w * t).sum()

    found = []
    for device, run in (("cpu", function), ("hpu", compiled(function))):
        w, t = matrix().to(device).requires_grad_(), matrix(seed=1).to(device)
        run(w, t).backward()
        found.append((w.grad.cpu(), t.cpu()))
    torch.testing.assert_close(found[1], found[0])
    only_graph()


def test_two_inputs_over_one_memory():
    x = matrix(8).to("hpu").requires_grad_()
    base = x * 2
    low, high = base[:4], base[4:]
    first, second = compiled(lambda a, b: (a.detach(), b.view(2, 2)))(low, high)
    assert (first.requires_grad, second.requires_grad) == (False, True)
    assert first.data_ptr() == low.data_ptr() and second.data_ptr() == high.data_ptr()
    (second * 3).sum().backward()
    assert_close(x.grad, torch.tensor([0.0] * 4 + [6.0] * 4))


def test_sizes_that_change():
    run = compiled(lambda t: (t.detach(), t.view(-1), t * t.shape[0]))
    for rows in (2, 3, 5):
        x = matrix(rows, 4).to("hpu").requires_grad_()
        t = x * 1
        still, flat, scaled = run(t)
        assert (still.requires_grad, flat.requires_grad) == (False, True)
        (still * t).sum().backward(retain_graph=True)
        (flat.sum() + scaled.sum()).backward()
        assert_close(x.grad, matrix(rows, 4) + 1 + rows)


def test_the_form_is_in_the_program():
    """A program from the store makes the same outputs, without a capture."""

    def run():
        t = leaf() * 2
        plain, flat = compiled(lambda t: (t.detach(), t.view(-1)))(t)
        return plain.requires_grad, flat.requires_grad

    assert run() == (False, True)
    service.forget_programs()
    assert run() == (False, True)
    assert only_graph().origin == "store"
