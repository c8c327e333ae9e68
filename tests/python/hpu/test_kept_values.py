"""Values that a model computes from its weights alone are computed once and cached, and follow
every change of the weights (docs/decisions/0033)."""

from __future__ import annotations

import copy
import ctypes
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from habana_frameworks.torch import native


def kernels_of(call) -> int:
    """The number of kernels that the device runs for one call."""
    library = ctypes.CDLL(native.torch_module().library_path())

    def counted() -> int:
        torch.hpu.synchronize()
        text, size = ctypes.create_string_buffer(4096), ctypes.c_size_t()
        assert library.synEmulatorGetCounters(text, ctypes.c_size_t(4096), ctypes.byref(size)) == 0
        return json.loads(text.value)["kernels"]

    before = counted()
    call()
    return counted() - before


class Normed(nn.Module):
    """The statistics of a norm and a product of weights, both of which depend on weights alone."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.a = nn.Parameter(torch.randn(6, 40))
        self.b = nn.Parameter(torch.randn(40, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)) @ F.relu(self.a @ self.b)


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    model = Normed().eval()
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2)
    return model


def served(model: nn.Module):
    """The model compiled on hpu and called, and a function that compares it with a model on the
    CPU."""
    compiled = torch.compile(copy.deepcopy(model).to("hpu"), backend="hpu_backend")
    inputs = iter(range(1000))

    def check(reference: nn.Module) -> None:
        torch.manual_seed(next(inputs))
        x = torch.randn(2, 3, 8, 8)
        with torch.no_grad():
            torch.testing.assert_close(
                compiled(x.to("hpu")).cpu(), reference(x), rtol=1e-4, atol=1e-4
            )

    check(model)
    return compiled, check


def test_it_is_computed_once(model):
    compiled, check = served(model)
    x = torch.randn(2, 3, 8, 8, device="hpu")
    with torch.no_grad():
        steady = kernels_of(lambda: compiled(x))
        compiled.a.mul_(1.0)
        anew = kernels_of(lambda: compiled(x))
        assert kernels_of(lambda: compiled(x)) == steady
    assert anew >= steady + 2  # for the product and for the norm's factors
    check(model)


def changes():
    def in_place(module):
        module.norm.running_var.add_(1)

    def by_optimizer(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        optimizer.zero_grad()

    def by_state_dict(module):
        torch.manual_seed(5)
        state = {
            name: torch.rand(value.shape) + 0.5 if value.is_floating_point() else value
            for name, value in module.state_dict().items()
        }
        module.load_state_dict(state)

    def by_assignment(module):
        module.a.data = torch.full_like(module.a, 0.25)

    def another_parameter(module):
        module.b = nn.Parameter(torch.full_like(module.b, -0.5))

    def one_element(module):
        module.b.view(-1)[7] = 3.0

    def through_a_view(module):
        module.a.t()[3:5].zero_()

    return [
        in_place,
        by_optimizer,
        by_state_dict,
        by_assignment,
        another_parameter,
        one_element,
        through_a_view,
    ]


@pytest.mark.parametrize("change", changes(), ids=lambda f: f.__name__)
def test_every_change_of_a_weight_is_seen(model, change):
    compiled, check = served(model)
    check(model)
    with torch.no_grad():
        for module in (model, compiled._orig_mod):
            change(module)
    check(model)
    check(model)


def test_training_between_calls_is_seen(model):
    """In train mode a graph writes statistics of its own."""
    compiled, check = served(model)
    for _ in range(3):
        x = torch.randn(4, 3, 8, 8)
        for module, given in ((model, x), (compiled, x.to("hpu"))):
            module.train()
            module(given)
            module.eval()
        check(model)


def test_inputs_are_computed_with_each_time(model):
    def product(x, a, b):
        return x @ F.relu(a @ b)

    compiled = torch.compile(product, backend="hpu_backend")
    x, a, b = (torch.randn(*s, device="hpu") for s in ((5, 6), (6, 40), (40, 6)))
    counts = {kernels_of(lambda: compiled(x, a, b)) for _ in range(4)}
    assert len(counts) == 1, counts
    torch.testing.assert_close(
        compiled(x, a, b).cpu(), product(x.cpu(), a.cpu(), b.cpu()), rtol=1e-4, atol=1e-4
    )


def test_models_of_one_program_keep_their_own(model):
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.a.neg_()
    (_, check), (_, check_other) = served(model), served(other)
    for _ in range(3):
        check(model)
        check_other(other)


def test_a_parameter_and_an_input_of_equal_graphs_have_different_keys():
    from habana_frameworks.torch.dynamo import report

    def keys():
        return {graph.front_end_key for graph in report().graphs}

    weight = nn.Linear(4, 4, bias=False, device="hpu")
    with torch.no_grad():
        torch.compile(lambda x: F.linear(x, weight.weight), backend="hpu_backend")(
            torch.randn(2, 4, device="hpu")
        )
        before = keys()
        torch.compile(lambda x, w: F.linear(x, w), backend="hpu_backend")(
            torch.randn(2, 4, device="hpu"), torch.randn(4, 4, device="hpu")
        )
        assert keys() - before
