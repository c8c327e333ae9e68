"""Training graphs: forward and backward recipes bound by one autograd node.

Guide rows: MODE-3 (eager mode), FALL-1 (eager segments). What autograd promises of a node is tested
here on small functions; models and optimizers in test_training_models.py.
"""

from __future__ import annotations

import copy
import gc

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process
from torch import nn
from torch.utils.checkpoint import checkpoint

from habana_frameworks.torch.dynamo import report


def compiled(function, **options):
    fresh_process()
    return torch.compile(function, backend="hpu_backend", options=options or None)


def matrix(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(sizes or (4, 4), generator=torch.Generator().manual_seed(seed))


def leaf(*sizes: int, seed: int = 0) -> torch.Tensor:
    return matrix(*sizes, seed=seed).to("hpu").requires_grad_()


def only_graph():
    """The one graph since fresh_process(), which was compiled without eager nodes."""
    (graph,) = report().graphs
    assert (graph.origin == "eager", graph.reason, graph.eager_nodes) == (False, "", 0)
    return graph


def assert_close(ours, theirs, rtol=1e-5, atol=1e-6):
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=rtol, atol=atol)


def test_forward_and_backward_are_a_recipe_each():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    device_model = copy.deepcopy(model).to("hpu")
    run = compiled(device_model)
    x = matrix(5, 6)
    for _ in range(2):
        out = run(x.to("hpu"))
        assert type(out.grad_fn).__name__ == "Gradients" or "Gradients" in out.grad_fn.name()
        out.square().sum().backward()
        model(x).square().sum().backward()
    for ours, theirs in zip(device_model.parameters(), model.parameters(), strict=True):
        assert_close(ours.grad, theirs.grad)
        assert ours.grad.stride() == theirs.grad.stride()
    assert only_graph().recipes == 2


def test_a_second_backward_raises_unless_the_graph_is_retained():
    w = leaf()
    loss = compiled(lambda w: (w @ w).sin().sum())(w)
    loss.backward(retain_graph=True)
    once = w.grad.clone()
    loss.backward()
    assert torch.equal(w.grad, 2 * once)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    only_graph()


def test_a_second_derivative_raises_instead_of_being_zero():
    w = leaf()
    loss = compiled(lambda w: (w @ w).sin().sum())(w)
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(RuntimeError, match="has no backward of its own"):
        gradient.sum().backward()


def test_a_saved_input_that_is_written_is_noticed():
    w, x = leaf(), matrix().to("hpu")
    loss = compiled(lambda w, x: (w * x).sum())(w, x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_saved_output_that_is_written_is_noticed():
    def function(w):
        product = w @ w
        return product, (product * product).sum()

    w = leaf()
    product, loss = compiled(function)(w)
    with torch.no_grad():
        product.add_(1)  # the backward multiplies with it
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_outputs_without_gradient():
    w = leaf()
    sine, cosine, place = compiled(lambda w: (w.sin(), w.cos(), w.detach().argmax()))(w)
    assert cosine.requires_grad
    assert not place.requires_grad
    sine.sum().backward()  # cosine's tangent is undefined: zeros
    assert_close(w.grad, matrix().cos())
    only_graph()


def test_outputs_that_are_inputs_or_views_of_them():
    weights = torch.arange(16.0).view(4, 4)
    w, x = leaf(), matrix(seed=1).to("hpu")
    double, turned, same, flat, number = compiled(lambda w, x: (w * 2, w.t(), w, x.view(-1), 3))(
        w, x
    )
    assert same is w
    assert turned.data_ptr() == w.data_ptr()
    assert flat.data_ptr() == x.data_ptr()
    assert not flat.requires_grad
    assert number == 3
    (double.sum() + (turned * weights.to("hpu")).sum() + same.sum()).backward()
    assert_close(w.grad, 3 + weights.t())
    only_graph()


def test_views_of_one_intermediate_run_eagerly():
    def function(w):
        y = w * 2
        return y.view(-1), y.t()

    w = leaf()
    first, second = compiled(function)(w)
    (first.sum() + second.sum()).backward()
    assert_close(w.grad, torch.full((4, 4), 4.0))
    assert "views of one tensor" in report().graphs[-1].reason


def test_frozen_parameters_get_no_gradient():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to("hpu")
    model[0].requires_grad_(False)
    compiled(model)(matrix(2, 4).to("hpu")).sum().backward()
    assert model[0].weight.grad is None
    assert model[1].weight.grad is not None
    only_graph()


def test_a_weight_that_is_used_twice():
    linear = nn.Linear(4, 4)
    model = nn.Sequential(linear, nn.Tanh(), linear)
    device_model = copy.deepcopy(model).to("hpu")
    x = matrix(2, 4)
    compiled(device_model)(x.to("hpu")).sum().backward()
    model(x).sum().backward()
    assert_close(device_model[0].weight.grad, model[0].weight.grad)
    only_graph()


def test_hooks_and_accumulation():
    w = leaf()
    w.grad = torch.ones_like(w)
    before = w.grad
    calls = []
    w.register_hook(lambda gradient: calls.append(1) or gradient * 2)
    compiled(lambda w: (w * w).sum())(w).backward()
    assert calls == [1]
    assert w.grad is before
    assert_close(w.grad, 1 + 4 * matrix())


def test_gradients_have_memory_of_their_own():
    """Both are the tangent: one tensor for two parameters would be accumulated into twice."""
    first, second = leaf(seed=1), leaf(seed=2)
    run = compiled(lambda a, b: a + b)
    for _ in range(3):
        run(first, second).sum().backward()
    assert first.grad.data_ptr() != second.grad.data_ptr()
    assert_close(first.grad, torch.full((4, 4), 3.0))
    assert_close(second.grad, torch.full((4, 4), 3.0))


def test_a_custom_function_runs_eagerly_and_right():
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    w = leaf()
    compiled(lambda w: Triple.apply(w).sum())(w).backward()
    assert_close(w.grad, torch.full((4, 4), 3.0))
    assert "higher-order" in report().graphs[-1].reason


def test_an_activation_in_place():
    w = leaf()
    compiled(lambda w: torch.relu_(w * 2).sum())(w).backward()
    assert_close(w.grad, 2 * (matrix() > 0).float())
    only_graph()


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
        # The gradient of what is normalised is nearly 0: rounding is all there is below 1e-4.
        for ours, theirs in zip(device_model.parameters(), model.parameters(), strict=True):
            assert_close(ours.grad, theirs.grad, 1e-3, 1e-3)


def test_requires_grad_that_changes_between_calls():
    x, w = leaf(), matrix(seed=1).to("hpu")
    run = compiled(lambda w, x: (w * x).sum())
    run(w, x).backward()
    w.requires_grad_()
    run(w, x).backward()
    assert_close(w.grad, matrix())
    assert_close(x.grad, 2 * matrix(seed=1))
    x.requires_grad_(False)
    w.grad = None
    run(w, x).backward()
    assert_close(w.grad, matrix())


def test_grad_of_a_compiled_function():
    run = compiled(lambda w: (w * w * w).sum())
    w = matrix()
    assert_close(torch.func.grad(run)(w.to("hpu")), 3 * w * w)


def test_activation_checkpointing():
    linear = nn.Linear(4, 4).to("hpu")

    def function(x):
        return checkpoint(lambda y: linear(y).sin(), x, use_reentrant=False).sum()

    x = matrix(2, 4).to("hpu")
    compiled(function)(x).backward()
    ours = linear.weight.grad.clone()
    linear.weight.grad = None
    function(x).backward()
    assert_close(ours, linear.weight.grad.cpu())


def test_hooks_of_saved_tensors():
    packed = []

    def pack(tensor):
        packed.append(tensor.device.type)
        return tensor.cpu()

    w = leaf()
    run = compiled(lambda w: (w.sin() * w).sum())
    run(w)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.to("hpu")):
        loss = run(w)
    loss.backward()
    assert packed
    assert_close(w.grad, matrix().cos() * matrix() + matrix().sin())


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
    """The first draw waits for a product, the second for nothing."""

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
    with torch.autocast("cpu", torch.bfloat16):
        theirs = model(x).float().square().mean()
    theirs.backward()
    # bf16 has 8 bits: 2^-8 relative, a few roundings deep.
    assert_close(ours, theirs, 2e-2, 1e-3)
    for mine, other in zip(device_model.parameters(), model.parameters(), strict=True):
        assert mine.grad.dtype == torch.float32
        assert_close(mine.grad, other.grad, 3e-2, 3e-3)
    only_graph()


def test_an_input_that_is_detached_inside():
    base = leaf(seed=1)
    y, x = base * 1, leaf()
    compiled(lambda y, x: (y.detach() * x).sum())(y, x).backward()
    assert base.grad is None  # and not zeros
    assert_close(x.grad, matrix(seed=1))


def test_a_graph_whose_result_has_no_gradient():
    w = leaf()
    assert compiled(lambda w: w.argmax())(w).item() == matrix().argmax().item()
    only_graph()


def test_a_part_without_gradient():
    def function(w):
        with torch.no_grad():
            largest = w.abs().max()
        return (w / largest).sum()

    w = leaf()
    compiled(function)(w).backward()
    assert_close(w.grad, torch.full((4, 4), 1 / matrix().abs().max().item()))
    only_graph()


def test_tangents_with_other_strides_than_the_output():
    w = leaf(4)
    run = compiled(lambda w: w.expand(3, 4) * 1.0)
    run(w).sum().backward()  # expanded
    assert_close(w.grad, torch.full((4,), 3.0))
    w.grad = None
    run(w).t().contiguous().square().sum().backward()  # transposed
    assert_close(w.grad, 6 * matrix(4))


def test_an_input_is_written_beside_the_backward():
    seen = torch.zeros(4, device="hpu")

    def function(w):
        seen.copy_(w.detach())
        return (w * 2).sum()

    w = leaf(4)
    compiled(function)(w).backward()
    assert_close(seen, matrix(4))
    assert_close(w.grad, torch.full((4,), 2.0))


def test_steps_are_bit_identical():
    def gradients():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).to("hpu")
        run = compiled(model)
        run(matrix(33, 64).to("hpu")).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    for ours, theirs in zip(gradients(), gradients(), strict=True):
        assert torch.equal(ours, theirs)


def test_memory_does_not_grow():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to("hpu")
    run = compiled(model)
    x = matrix(32, 64).to("hpu")
    allocated = []
    for step in range(300):
        model.zero_grad()
        run(x).sum().backward()
        if step in (20, 299):
            gc.collect()
            allocated.append(torch.hpu.memory_allocated())
    assert allocated[0] == allocated[1]


def test_a_program_outlives_its_function():
    """The node of a pending backward keeps it."""
    w = leaf()
    run = compiled(lambda w: (w @ w).sum())
    loss = run(w)
    del run
    from habana_frameworks.torch.dynamo.service import service

    service.forget_programs()
    torch._dynamo.reset()
    gc.collect()
    loss.backward()
    assert_close(w.grad, (torch.ones(4, 4) @ matrix().t()) + (matrix().t() @ torch.ones(4, 4)))


def test_the_next_process_finds_the_program():
    """The key tells which inputs want gradients; nothing is captured again."""
    from habana_frameworks.torch.dynamo.service import service

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
