"""habana_frameworks.torch.core.quantizer, observer and quantize_pt2e: the PT2E flow."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process
from torch import nn
from training_case import assert_close, matrix

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.core.observer import AbsMaxObserver, SimpleAbsMaxObserver
from habana_frameworks.torch.core.quantize_pt2e import (
    convert_pt2e,
    export,
    load_pt2e,
    prepare_pt2e,
    save_pt2e,
)
from habana_frameworks.torch.core.quantizer import habana_quant_config_symmetric, habana_quantizer

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.conv, self.out = nn.Conv2d(1, 3, 3), nn.Linear(27, 5)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1)
        y = self.out(y)
        return y @ y.t()


def rounded(x, scale, dtype=E4M3):
    return (x / scale).clamp(-240, 240).to(dtype).float() * scale


def scale_of(largest, margin, dtype=E4M3):
    """The rule in plain numbers: a power of 16 from 2**-8 to 2**4, or 1."""
    if dtype is E5M2:
        return 1.0
    power = math.ceil(math.log2(max(largest * 2**margin / 240, 2**-12)))
    return 2.0 ** min(max(4 * math.ceil(power / 4), -8), 4)


def reference(model, x, seen, dtype=E4M3):
    """The model with rounded inputs of its products. seen: the input of the calibration."""

    def run(x, scales):
        found = iter(scales) if scales else None
        used = []

        def narrow(tensor, margin=2):
            largest = tensor.abs().max().item()
            scale = next(found) if found else scale_of(largest, margin, dtype)
            used.append(scale)
            return rounded(tensor, scale, dtype) if found else tensor

        y = F.relu(F.conv2d(narrow(x), narrow(model.conv.weight, 1), model.conv.bias))
        y = F.max_pool2d(narrow(y), 2).flatten(1)
        y = F.linear(narrow(y), narrow(model.out.weight, 1), model.out.bias)
        return narrow(y) @ narrow(y.t()), used

    _, scales = run(seen, None)
    return run(x, scales)[0], scales


def quantizer(dtype=E4M3):
    return habana_quantizer().set_global(habana_quant_config_symmetric(dtype))


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("device", ["cpu", "hpu"])
@pytest.mark.parametrize("fold", [True, False])
def test_the_flow_is_the_reference(dtype, device, fold):
    model = Model().eval()
    seen, x = matrix(4, 1, 8, 8) * 6, matrix(4, 1, 8, 8, seed=1) * 4
    with torch.no_grad():
        wanted, scales = reference(model, x, seen, dtype)
        model.to(device)
        prepared = prepare_pt2e(export(model, (seen.to(device),)), quantizer(dtype))
        assert_close(prepared(seen.to(device)), Model().eval()(seen), 1e-4, 1e-4)
        converted = convert_pt2e(prepared, fold_quantize=fold)
        given = converted(x.to(device))
    assert_close(given, wanted, 1e-3, 1e-2 * wanted.abs().max().item())
    plain = Model().eval()(x).detach()
    assert (given.cpu() - plain).abs().max() > 1e-3 * plain.abs().max()  # it is in fp8
    assert dtype is E5M2 or len(set(scales)) > 1
    # Each tensor in fp8 becomes wide again and is multiplied by its scale.
    wide = [n for n in converted.graph.nodes if n.target is torch.ops.aten.to.dtype]
    used = [next(iter(n.users)).args[1] for n in wide if n.args[1] is torch.float32]
    assert sorted(used) == sorted(scales)
    kept = [b.dtype for b in converted.buffers()]
    assert kept == ([dtype] * 2 if fold else [])
    exported = {n.target for n in converted.graph.nodes if n.op == "get_attr"}
    assert ("conv.weight" in exported) is not fold


def test_a_converted_graph_is_compiled():
    model, seen = Model().eval().to("hpu"), matrix(4, 1, 8, 8).to("hpu")
    with torch.no_grad():
        prepared = prepare_pt2e(export(model, (seen,)), quantizer())
        fresh_process()
        observed = torch.compile(prepared, backend="hpu_backend")
        observed(seen)
        converted = convert_pt2e(prepared)
        compiled = torch.compile(converted, backend="hpu_backend")
        assert_close(compiled(seen), converted(seen).cpu(), 1e-4, 1e-4)
        fresh = prepare_pt2e(export(model, (seen,)), quantizer())
        fresh(seen)
        assert_close(converted(seen), convert_pt2e(fresh)(seen).cpu(), 0, 0)


def test_saved_and_loaded(tmp_path):
    model, x = Model().eval(), matrix(4, 1, 8, 8)
    with torch.no_grad():
        prepared = prepare_pt2e(export(model, (x,)), quantizer())
        prepared(x)
        converted = convert_pt2e(prepared)
        save_pt2e(converted, tmp_path / "model.pt2")
        loaded = load_pt2e(tmp_path / "model.pt2").module()
        assert torch.equal(loaded(x), converted(x))
        program = torch.export.export(converted, (x,))
        save_pt2e(program, str(tmp_path / "program.pt2"))
        assert torch.equal(load_pt2e(str(tmp_path / "program.pt2")).module()(x), converted(x))


@pytest.mark.parametrize("kind", [AbsMaxObserver, SimpleAbsMaxObserver])
@pytest.mark.parametrize("largest", [0.0, 0.01, 0.2, 1.0, 3.7, 60.0, 239.0, 1000.0, 1e6])
@pytest.mark.parametrize("margin", [0, 2])
def test_observers(kind, largest, margin):
    observer = kind(quant_min=-240.0, quant_max=240.0, eps=2.0**-12, backoff_margin=margin)
    for value in (largest / 3, -largest, largest / 2):
        x = torch.tensor([value, value / 2])
        assert observer(x) is x
    observer(torch.empty(0))
    scale, zero = observer.calculate_qparams()
    assert (scale.item(), zero.item()) == (scale_of(largest, margin), 0)
    observer.reset_observer_state()
    assert observer.largest() == 0


def test_a_module_that_is_used_twice_has_one_observer():
    class Twice(nn.Module):
        def forward(self, a):
            return torch.matmul(a, a) + torch.bmm(a, a)

    prepared = prepare_pt2e(export(Twice(), (torch.ones(2, 2, 2),)), quantizer())
    assert len([n for n in prepared.graph.nodes if n.op == "call_module"]) == 2  # with the guards


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: habana_quant_config_symmetric(torch.int8), "quant_dtype=torch.int8; use torch.fl"),
        (lambda: habana_quantizer().annotate(None), "set_global"),
        (lambda: export(nn.Linear(2, 2)), "pass example inputs"),
        (lambda: convert_pt2e(export(nn.Linear(2, 2), (torch.ones(1, 2),))), "prepare_pt2e first"),
        (lambda: AbsMaxObserver(dtype=torch.int8), "AbsMaxObserver: dtype=torch.int8"),
        (lambda: AbsMaxObserver(quant_min=-1.0), "quant_min = -quant_max"),
        (lambda: SimpleAbsMaxObserver(is_dynamic=True), "must be False"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_modules_are_attributes_of_core(told):
    assert htcore.quantizer.habana_quantizer is habana_quantizer
    assert htcore.observer.AbsMaxObserver is AbsMaxObserver
    x = torch.ones(1, 2)
    prepared = prepare_pt2e(export(nn.Linear(2, 2), (x,)), quantizer())
    convert_pt2e(prepared, use_reference_representation=True)
    (line,) = told()
    assert line.startswith("use_reference_representation has no effect: ")
