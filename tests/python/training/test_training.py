"""Training graphs: forward and backward recipes bound by one autograd node.

Guide rows: MODE-3 (eager mode), FALL-1 (eager segments). The properties that autograd promises of a
node are tested here on small functions; state (statistics, random numbers, memory, the store) in
test_training_state.py; models and optimizers in test_training_models.py.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from training_case import assert_close, compiled, leaf, matrix, only_graph

from habana_frameworks.torch.dynamo.capture.functional import copies_blocks


def test_forward_and_backward_are_a_recipe_each():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    device_model = copy.deepcopy(model).to("hpu")
    run = compiled(device_model)
    x = matrix(5, 6)
    for _ in range(2):
        out = run(x.to("hpu"))
        assert "Gradients" in out.grad_fn.name()
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
        product.add_(1)  # the backward multiplies by it
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


def test_frozen_parameters_get_no_gradient():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to("hpu")
    model[0].requires_grad_(False)
    compiled(model)(matrix(2, 4).to("hpu")).sum().backward()
    assert model[0].weight.grad is None
    assert model[1].weight.grad is not None
    only_graph()


def test_a_parameter_without_dimensions():
    """The forms of a temperature. In the last one the gradient's strides were requested without any
    dimensions, and the graph ran eagerly."""
    constant = torch.arange(3.0)
    for function in (
        lambda s: s * 2,
        lambda s: (torch.eye(3, device=s.device) * s.exp()).sum(),
        lambda s: (constant.to(s.device) * s.exp()).sum(),
    ):
        ours, theirs = (
            torch.tensor(0.5, device=kind, requires_grad=True) for kind in ("hpu", "cpu")
        )
        compiled(function)(ours).backward()
        function(theirs).backward()
        only_graph()
        assert_close(ours.grad, theirs.grad)


def test_a_weight_that_is_used_twice():
    linear = nn.Linear(4, 4)
    model = nn.Sequential(linear, nn.Tanh(), linear)
    device_model = copy.deepcopy(model).to("hpu")
    x = matrix(2, 4)
    compiled(device_model)(x.to("hpu")).sum().backward()
    model(x).sum().backward()
    assert_close(device_model[0].weight.grad, model[0].weight.grad)
    only_graph()


@pytest.mark.parametrize("extremum", [torch.cummax, torch.cummin])
def test_the_gradient_of_a_running_extremum_goes_to_its_place(extremum):
    x = torch.tensor([[1.0, 3, 1, 3, 0], [2, 2, -1, 5, 5]])
    weight = matrix(2, 5)

    def function(x, weight):
        values, places = extremum(x * 2, 1)
        return (values * weight).sum(), places

    ours, theirs = x.to("hpu").requires_grad_(), x.clone().requires_grad_()
    loss, places = compiled(function)(ours, weight.to("hpu"))
    loss.backward()
    wanted, wanted_places = function(theirs, weight)
    wanted.backward()
    assert_close(loss, wanted)
    assert_close(ours.grad, theirs.grad)
    assert torch.equal(places.cpu(), wanted_places)
    only_graph()


@pytest.mark.parametrize(
    ("whole", "resizing"),
    [
        (True, {"scale_factor": 2}),
        (True, {"scale_factor": (2.0, 3.0), "mode": "nearest-exact"}),
        (True, {"size": (12, 15)}),
        (True, {"size": 30}),
        (False, {"size": (9, 7)}),
        (False, {"scale_factor": 1.7}),
        (False, {"scale_factor": 1.7, "mode": "bilinear"}),
        (False, {"scale_factor": 2.0, "mode": "bicubic"}),
    ],
)
def test_resizing(whole, resizing):
    def function(x):
        return F.interpolate(x.sin(), **resizing).square().sum()

    x = matrix(2, 3, 6, 5).requires_grad_()
    device_x = leaf(2, 3, 6, 5)
    compiled(function)(device_x).backward()
    function(x).backward()
    assert_close(device_x.grad, x.grad, atol=1e-5)
    only_graph()
    assert copies_blocks(x, **resizing) == whole  # otherwise it would use gathers and scatters


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
    """Both gradients are the tangent: one tensor for two parameters would be accumulated into
    twice."""
    first, second = leaf(seed=1), leaf(seed=2)
    run = compiled(lambda a, b: a + b)
    for _ in range(3):
        run(first, second).sum().backward()
    assert first.grad.data_ptr() != second.grad.data_ptr()
    assert_close(first.grad, torch.full((4, 4), 3.0))
    assert_close(second.grad, torch.full((4, 4), 3.0))


def test_an_activation_in_place():
    w = leaf()
    compiled(lambda w: torch.relu_(w * 2).sum())(w).backward()
    assert_close(w.grad, 2 * (matrix() > 0).float())
    only_graph()


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


def test_an_input_that_is_detached_inside():
    base = leaf(seed=1)
    y, x = base * 1, leaf()
    compiled(lambda y, x: (y.detach() * x).sum())(y, x).backward()
    assert base.grad is None  # not a tensor of zeros
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
    run(w).sum().backward()  # the gradient is expanded
    assert_close(w.grad, torch.full((4,), 3.0))
    w.grad = None
    run(w).t().contiguous().square().sum().backward()  # the gradient is transposed
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
