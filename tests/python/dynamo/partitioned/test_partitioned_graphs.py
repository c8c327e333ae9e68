"""Graphs that our own capture refuses: AOTAutograd's forward and backward are compiled, and the
report says why AOTAutograd was used. Compared with CPU eager.

Guide rows: FALL-1, FALL-2 (eager segments).
"""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from partitioned_case import KeptUnchecked, Tripled, parts
from torch import nn
from torch.utils.checkpoint import checkpoint
from training_case import assert_close, compiled, leaf, matrix

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.programs.service import service


@pytest.mark.parametrize(("function", "factor"), [(Tripled, 3), (KeptUnchecked, 4)])
def test_a_custom_function(function, factor):
    w = leaf()
    compiled(lambda w: function.apply(w).sum())(w).backward()
    assert_close(w.grad, factor * matrix())
    parts("higher-order operation")


def test_the_second_time_a_graph_is_met_in_a_process():
    for _ in range(2):
        w = leaf(3, 5)
        compiled(lambda w: (w.exp(), Tripled.apply(w).sum())[1])(w).backward()
        assert_close(w.grad, 3 * matrix(3, 5))
    parts("higher-order operation")
    assert [graph.origin for graph in report().graphs] == ["memory", "memory"]


def test_programs_come_from_the_store():
    def run():
        w = leaf(3, 7)
        compiled(lambda w: Tripled.apply(w).cos().sum())(w).backward()
        return w.grad.cpu()

    first = run()
    service.forget_programs()
    assert torch.equal(run(), first)
    assert [graph.origin for graph in report().graphs] == ["store", "store"]


def test_a_remembered_refusal_keeps_no_frames():
    """A remembered exception would keep its traceback, and with it the caller's locals."""

    def function(w):
        y = w * 2
        return y.view(-1), y.t()

    def step():
        w, local = leaf(3, 11), matrix(7, 7)
        first, second = compiled(function)(w)
        (first.sum() + second.sum()).backward()
        return weakref.ref(w), weakref.ref(local)

    service.forget_programs()
    held = step()
    torch._dynamo.reset()
    gc.collect()
    assert service._failed
    assert [reference() for reference in held] == [None, None]


def test_views_of_one_intermediate_share_their_memory():
    def function(w):
        y = w * 2
        return y.view(-1), y.t()

    w = leaf()
    first, second = compiled(function)(w)
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    (first.sum() + (second * second).sum()).backward()
    assert_close(w.grad, 2 + 8 * matrix())
    parts("views of one tensor")


def test_a_written_input_that_gradients_flow_through():
    def function(y):
        y.mul_(2)
        return (y * y).sum()

    x = leaf()
    y = x * 1
    compiled(function)(y).backward()
    assert_close(y, 2 * matrix())
    assert_close(x.grad, 8 * matrix())
    parts("in-place operation")


@pytest.mark.filterwarnings("ignore:Error detected")
@pytest.mark.parametrize(
    "function",
    [
        lambda w, state: ((w * w * state).sum(), state.add_(1))[0],
        lambda w, state: ((w.sin() * state.exp_()).sum(), state.mul_(2))[0],
        lambda w, state: ((y := w.exp()).sum(), y.add_(1))[1],
        lambda w, state: ((y := w * 2) * y, y.add_(1))[0],
        lambda w, state: (torch.where(state > 0, w * state, w).sum(), state.zero_())[0],
        lambda w, state: (nn.functional.linear(w, state), state.copy_(w.detach()))[0],
    ],
)
def test_a_write_to_what_the_backward_reads_is_noticed(function):
    """The recording read a tensor that had been written meanwhile, where autograd raises."""
    w, state = leaf(), matrix(seed=1).to("hpu")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        compiled(function)(w, state).sum().backward()


def test_an_embedding_that_renorms_its_weight():
    cpu = nn.Embedding(10, 8, max_norm=1.0)
    device = copy.deepcopy(cpu).to("hpu")
    index = torch.tensor([1, 2, 5, 2])
    compiled(device)(index.to("hpu")).square().sum().backward()
    cpu(index).square().sum().backward()
    assert_close(device.weight, cpu.weight)
    assert_close(device.weight.grad, cpu.weight.grad)
    parts("writes to an input that gradients flow through")


def test_an_activation_checkpoint():
    cpu = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    device = copy.deepcopy(cpu).to("hpu")
    compiled(lambda x: checkpoint(device, x, use_reentrant=False).sum())(
        matrix().to("hpu")
    ).backward()
    cpu(matrix()).sum().backward()
    for ours, theirs in zip(device.parameters(), cpu.parameters(), strict=True):
        assert_close(ours.grad, theirs.grad)
    parts("higher-order operation")


@pytest.mark.parametrize("compiles", [True, False])
def test_an_activation_checkpoint_that_draws(compiles):
    """The backward uses the mask of the forward, compiled and eagerly."""
    x = torch.ones(64, 64).to("hpu").requires_grad_()
    drop = nn.Dropout(0.5)

    def part(x):
        return checkpoint(lambda x: drop(x * x), x * 1, use_reentrant=False)

    y = compiled(lambda x: checkpoint(part, x, use_reentrant=False), use_compiled_recipes=compiles)(
        x
    )
    y.sum().backward()
    assert torch.equal(x.grad, 2 * y)
    assert 0.4 < (y == 0).float().mean().item() < 0.6
    (graph,) = report().graphs
    assert (graph.origin != "eager", graph.eager_nodes) == (compiles, 0)


def test_second_derivatives_are_refused():
    w = leaf()
    loss = compiled(lambda w: Tripled.apply(w).sum())(w)
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    assert_close(gradient, 3 * matrix())
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


def test_a_gradient_that_is_differentiated_inside_the_graph():
    linear = nn.Linear(4, 4)
    device = copy.deepcopy(linear).to("hpu")

    def penalty(layer, x):
        (gradient,) = torch.autograd.grad(layer(x).tanh().sum(), x, create_graph=True)
        return (gradient * gradient).sum()

    with torch._dynamo.config.patch(trace_autograd_ops=True):
        compiled(lambda x: penalty(device, x))(leaf()).backward()
    penalty(linear, matrix().requires_grad_()).backward()
    assert_close(device.weight.grad, linear.weight.grad)
    assert report().eager_segments == 0


def test_transforms_of_functions():
    cubes = torch.func.vmap(torch.func.grad(lambda x: (x**3).sum()))
    w = leaf()
    compiled(lambda w: cubes(w).sum())(w).backward()
    assert_close(w.grad, 6 * matrix())
    assert report().eager_segments == 0


def test_a_view_of_a_written_input_without_gradients():
    def function(x):
        x.add_(1)
        return x.t()

    x = matrix().to("hpu")
    with torch.no_grad():
        y = compiled(function)(x)
        assert_close(y, (matrix() + 1).t())
        x.add_(1)
    assert_close(y, (matrix() + 2).t())
    parts("a view of an input that it writes to", ("inference",))


def test_a_branch_on_data_runs_eagerly():
    def function(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    for sign in (1, -1):
        x = matrix().abs() * sign
        w = x.to("hpu").requires_grad_()
        y = compiled(function)(w)
        y.sum().backward()
        assert_close(y, function(x))
        assert_close(w.grad, x.cos() if sign > 0 else -x.sin())
    assert "the graph has a higher-order operation" in report().graphs[-1].reason


def test_eager_steps_that_are_forbidden_are_an_error():
    w = leaf()
    run = compiled(lambda w: Tripled.apply(w.lgamma()).sum(), use_eager_fallback=False)
    with pytest.raises(Exception, match="use_eager_fallback is off"):
        run(w)


def as_strided_gradient(gradient, x):
    return torch.as_strided(gradient.contiguous(), (4, 4), (1, 4), 0) * 3 * x


def branching_gradient(gradient, x):
    return torch.cond(x.sum() > 0, lambda g, x: g * x, lambda g, x: g - x, (gradient, x))


@pytest.mark.parametrize(
    ("backward", "origins"),
    [(as_strided_gradient, ["compiled", "compiled"]), (branching_gradient, ["compiled", "eager"])],
)
def test_a_backward_with_what_no_capture_takes(backward, origins):
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return backward(gradient, *ctx.saved_tensors)

    w, cpu = leaf(), matrix().requires_grad_()
    compiled(lambda w: Function.apply(w).sin())(w).backward(matrix(seed=1).to("hpu"))
    Function.apply(cpu).sin().backward(matrix(seed=1))
    assert_close(w.grad, cpu.grad)
    assert [(g.origin == "eager") for g in report().graphs] == [o == "eager" for o in origins]


@pytest.mark.parametrize(
    "function",
    [
        lambda h: (h, Tripled.apply(h + 1)),
        lambda h: (h, Tripled.apply(h.t() + 1)),
        lambda h: (h[1:].exp(), Tripled.apply(h[1:]).exp()),
    ],
    ids=["twice", "a view", "exponentials"],
)
def test_an_output_that_is_written_before_the_backward(function):
    """A tensor that was both saved for the backward and returned became two tensors over one
    memory, each with its own count of writes, which gave a wrong gradient without an error."""
    w = leaf()
    outputs = compiled(lambda w: function(w @ w))(w)
    with torch.no_grad():
        for output in outputs:
            output.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        sum(output.sum() for output in outputs).backward()
    assert all(graph.parted_because for graph in report().graphs)


def writes_with_gradients(y, z):
    y.mul_(2)
    return (y * z).sum()


def writes_without(y, z):
    y.mul_(2)
    return y.t(), y * z


@pytest.mark.parametrize("function", [writes_with_gradients, writes_without])
def test_inputs_that_overlap_in_a_later_call(function):
    """AOTAutograd's graph reads z before y is written."""
    run = compiled(function)
    gradients = function is writes_with_gradients
    for shared in (False, True, False):
        for target, call in (("hpu", run), ("cpu", function)):
            x = matrix().to(target).requires_grad_(gradients)
            y = x * 1
            z = y.detach() if shared else y.detach().clone()
            with torch.set_grad_enabled(gradients):
                result = call(y, z)
            if target == "hpu":
                ours = [y, z, *(result if isinstance(result, tuple) else (result,))]
        theirs = [y, z, *(result if isinstance(result, tuple) else (result,))]
        for our, their in zip(ours, theirs, strict=True):
            assert_close(our, their, rtol=1e-4)
    assert report().eager_segments == 0
