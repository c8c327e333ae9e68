"""Parameters, buffers and other state of wrapped modules: it is looked up at each call."""

from __future__ import annotations

import copy
import io

import torch
from both_modes import close, matrix
from both_modes import mode as mode
from torch import nn
from wrapping_case import layers, on_hpu
from wrapping_case import told as told

import habana_frameworks.torch as ht


def test_buffers_that_are_written_in_place():
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module)
    with torch.no_grad():
        for shift in range(4):
            close(module((matrix(6, 4) + shift).to("hpu")), model(matrix(6, 4) + shift))
            for ours, theirs in zip(module.buffers(), model.buffers(), strict=True):
                close(ours, theirs)
    assert module.forward.graphs.replays == 4
    module.eval()
    model.eval()
    with torch.no_grad():
        close(module(on_hpu(6, 4)), model(matrix(6, 4)))
    assert module.forward.graphs.captures == 2


class Averaging(nn.Module):
    """Gives its buffer another tensor at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.mean = self.mean * 0.5 + x
        return self.mean * 2


def test_buffers_that_are_replaced(told):
    theirs, ours = Averaging(), ht.hpu.wrap_in_hpu_graph(Averaging().to("hpu"))
    for _ in range(4):
        close(ours(on_hpu(3)), theirs(matrix(3)))
        close(ours.mean, theirs.mean)
    assert ours.forward.graphs.captures == 0
    assert "each call gives the module another tensor 'mean'" in told()[0]


def test_a_tensor_that_the_first_call_makes():
    class Lazily(nn.Module):
        table = None

        def forward(self, x):
            if self.table is None:
                self.table = torch.arange(3, device=x.device) * 10.0
            return x + self.table

    module = ht.hpu.wrap_in_hpu_graph(Lazily())
    for _ in range(3):
        close(module(on_hpu(3)), matrix(3) + torch.arange(3) * 10.0)
    assert module.forward.graphs.captures == 1
    assert module.forward.graphs.others == 1
    module.table = torch.ones(3, device="hpu")
    close(module(on_hpu(3)), matrix(3) + 1)


def test_parameters_that_become_others():
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module.eval())
    model.eval()
    with torch.no_grad():
        for change in (
            lambda m: None,
            lambda m: m[0].weight.mul_(2),
            lambda m: setattr(m[3], "weight", nn.Parameter(m[3].weight * 3)),
            lambda m: setattr(m[0].bias, "data", m[0].bias.data + 1),
            lambda m: m.to(torch.float64),
        ):
            change(model)
            change(module)
            dtype = model[0].weight.dtype
            for _ in range(2):
                close(module(on_hpu(5, 4).to(dtype)), model(matrix(5, 4).to(dtype)))
    assert module.forward.graphs.captures == 2
    assert module.forward.graphs.others == 0


def test_parameters_of_another_form_are_captured_again():
    linear = nn.Linear(4, 3)
    module = ht.hpu.wrap_in_hpu_graph(copy.deepcopy(linear).to("hpu"))
    with torch.no_grad():
        close(module(on_hpu(2, 4)), linear(matrix(2, 4)))
        module.weight = nn.Parameter(on_hpu(4, 5).t())
        module.bias = nn.Parameter(on_hpu(5))
        want = matrix(2, 4) @ matrix(4, 5) + matrix(5)
        close(module(on_hpu(2, 4)), want)
    assert module.forward.graphs.captures == 2


def test_a_copy_of_a_wrapped_module_has_its_own_graphs():
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module.eval(), max_graphs=5)
    model.eval()
    assert list(module.state_dict()) == list(model.state_dict())
    with torch.no_grad():
        close(module(on_hpu(2, 4)), model(matrix(2, 4)))
        other = copy.deepcopy(module)
        other[3].weight.zero_()
        close(module(on_hpu(2, 4)), model(matrix(2, 4)))
        close(other(on_hpu(2, 4)), model[3].bias.expand(2, 3))
    assert other.forward.graphs.captures == 1
    assert other.forward.graphs.max_graphs == 5
    other.clear_cache()
    assert len(module.forward.graphs) == 1


def test_a_wrapped_module_is_saved():
    module = ht.hpu.wrap_in_hpu_graph(nn.Linear(4, 3).to("hpu"))
    module(on_hpu(2, 4))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    other = torch.load(file, weights_only=False)
    close(other(on_hpu(2, 4)), module(on_hpu(2, 4)).cpu())
    assert other.forward.graphs.captures == 1


def test_what_a_hook_has_kept_follows_the_replays():
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module.eval())
    model.eval()
    seen = {}
    module[1].register_forward_hook(lambda m, args, result: seen.update(ours=result))
    with torch.no_grad():
        for shift in (0.0, 1.0):
            module((matrix(2, 4) + shift).to("hpu"))
            close(seen["ours"], model[:2](matrix(2, 4) + shift))
