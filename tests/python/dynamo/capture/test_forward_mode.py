"""Forward-mode differentiation: a call whose inputs have tangents runs eagerly, its tangents are
right, and the report says so. Compared with CPU eager.

Guide rows: MODE-3 (eager mode), FALL-1 (eager segments).
"""

from __future__ import annotations

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch import nn
from training_case import assert_close, compiled, leaf, matrix

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.programs.service import service
from habana_frameworks.torch.report.cures import for_eager

REASON = "an input has a tangent of forward-mode differentiation"


def tangents(function, *inputs, wanted=None):
    """The tangents of the outputs; None for an output without one. wanted: the inputs that get a
    tangent."""
    with forward_ad.dual_level():
        duals = [
            forward_ad.make_dual(x, torch.full_like(x, 0.5).cumsum(0))
            if wanted is None or i in wanted
            else x
            for i, x in enumerate(inputs)
        ]
        outputs = function(*duals)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found = [forward_ad.unpack_dual(output) for output in outputs]
        return [
            (pair.primal.detach().cpu(), None if pair.tangent is None else pair.tangent.cpu())
            for pair in found
        ]


FUNCTIONS = {
    "pointwise": torch.sin,
    "sum": lambda x: x.sum(),
    "view": lambda x: x.view(-1),
    "itself": lambda x: x,
    "detached, product, view": lambda x: (x.detach(), x * 2, x.t()),
    "product": lambda x: x @ x.t(),
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x: F.layer_norm(x, (4,)),
    "in place": lambda x: torch.relu_(x * 2),
    "maximum and its place": lambda x: x.max(0),
    "without gradient": lambda x: (x > 0, x.argmax()),
    "new tensor": lambda x: (torch.ones_like(x), x.cos()),
}


@pytest.mark.parametrize("before", [False, True], ids=["first call", "after a plain call"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_are_those_of_eager(name, before):
    function = FUNCTIONS[name]
    run = compiled(function)
    torch._dynamo.utils.counters.clear()
    x = matrix()
    if before:
        run(x.to("hpu"))
    torch.testing.assert_close(tangents(run, x.to("hpu")), tangents(function, x))
    calls = [graph.eager_calls for graph in report().graphs if graph.eager_calls]
    assert "torch.func.jvp" in for_eager(REASON)
    # Dynamo makes no graph of some: from 2.14 on it refuses to trace a tensor with a tangent.
    refused = any("dual tensor" in why for why in torch._dynamo.utils.counters["unimplemented"])
    assert calls == [{REASON: 1}] * (name != "itself" and not refused)
    assert not (before and refused)
    plain = run(x.to("hpu"))  # it is compiled again afterwards, or runs eagerly still
    plain = plain[-1] if isinstance(plain, tuple) else plain
    expected = function(x)
    expected = expected[-1] if isinstance(expected, tuple) else expected
    assert torch.equal(plain.cpu() > 0, expected > 0)


def test_a_tangent_of_one_input_of_several():
    def function(x, y):
        return x * y, x + 1, y.sin()

    x, y = matrix(), matrix(seed=1)
    for wanted in ([0], [1], [0, 1]):
        torch.testing.assert_close(
            tangents(compiled(function), x.to("hpu"), y.to("hpu"), wanted=wanted),
            tangents(function, x, y, wanted=wanted),
        )


def test_of_inputs_that_require_gradients():
    """For a program that has a backward, PyTorch's own error spoke of a custom function."""
    run = compiled(lambda w: w.sin().sum())
    w = leaf()
    run(w).backward()
    torch.testing.assert_close(
        tangents(run, leaf()), tangents(lambda w: w.sin().sum(), matrix().requires_grad_())
    )


def test_of_parameters():
    torch.manual_seed(0)
    cpu = nn.Linear(4, 3)
    device = nn.Linear(4, 3).to("hpu")
    device.load_state_dict(cpu.state_dict())

    def derivative(module, run, x):
        with forward_ad.dual_level():
            weight = forward_ad.make_dual(module.weight.detach(), torch.ones_like(module.weight))
            with torch.nn.utils.stateless._reparametrize_module(module, {"weight": weight}):
                return forward_ad.unpack_dual(run(x)).tangent.detach().cpu()

    x = matrix(2, 4)
    run = compiled(device)
    run(x.to("hpu"))
    assert_close(derivative(device, run, x.to("hpu")), derivative(cpu, cpu, x))


def test_inputs_with_tangents_that_nothing_follows():
    """A level is on, but these inputs have no tangents, so the program runs."""
    run = compiled(torch.sin)
    with forward_ad.dual_level():
        y = run(matrix().to("hpu"))
        assert forward_ad.unpack_dual(y).tangent is None
    assert_close(y, matrix().sin())
    assert report().eager_segments == 0


@pytest.mark.parametrize("before", [False, True])
def test_transforms_around_a_compiled_function(before):
    def function(x):
        return x.sin() * x.sum()

    x = matrix(4)
    device = x.to("hpu")
    run = compiled(function)
    if before:
        run(device)
    func = torch.func
    for transform in (
        lambda f, x: func.jvp(f, (x,), (x * 2,)),
        lambda f, x: func.jacfwd(f)(x),
        lambda f, x: func.jvp(lambda y: func.jvp(f, (y,), (y,))[1], (x,), (x,)),
        lambda f, x: func.jacfwd(func.jacfwd(f))(x),
        lambda f, x: func.hessian(lambda y: f(y).sum())(x),
        lambda f, x: func.vmap(lambda t: func.jvp(f, (x,), (t,))[1])(torch.stack([x, x * x])),
    ):
        ours = torch.utils._pytree.tree_leaves(transform(run, device))
        theirs = torch.utils._pytree.tree_leaves(transform(function, x))
        torch.testing.assert_close([o.cpu() for o in ours], theirs, rtol=1e-4, atol=1e-4)


def test_partitioned_graphs():
    """AOTAutograd's own functions would drop the tangents, too."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 2

    def function(x):
        y = x * 3
        return y.view(-1), y.t()

    run = compiled(lambda x: Doubled.apply(x).cos())
    x = leaf()
    run(x).sum().backward()
    for made in (leaf(), matrix().to("hpu")):
        ours = tangents(run, made)
        torch.testing.assert_close(ours, tangents(lambda x: (x * 2).cos(), matrix()))
    torch.testing.assert_close(
        tangents(compiled(function), leaf()), tangents(function, matrix().requires_grad_())
    )


def test_writes_to_inputs():
    def function(x, state):
        state.add_(1)
        return x * 2

    run = compiled(function)
    state = torch.zeros(4).to("hpu")
    run(matrix(4).to("hpu"), state)
    found = tangents(run, matrix(4).to("hpu"), state, wanted=[0])
    assert_close(found[0][1], 2 * torch.full((4,), 0.5).cumsum(0))
    assert_close(state, torch.full((4,), 2.0))


def test_programs_from_the_store():
    compiled(torch.cos)(matrix().to("hpu"))
    service.forget_programs()
    torch.testing.assert_close(
        tangents(compiled(torch.cos), matrix().to("hpu")), tangents(torch.cos, matrix())
    )
