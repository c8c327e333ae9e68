"""The weights of a served model exist once in memory, and every access to them gives their
values."""

from __future__ import annotations

import copy

import torch
from failing_process import run_python
from torch import nn

WIDTH = 1536
LAYERS = 6

MEASURE = f"""
import json, torch, habana_frameworks.torch
from torch import nn
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
model = nn.Sequential(*(nn.Linear({WIDTH}, {WIDTH}) for _ in range({LAYERS}))).eval()
x = torch.randn(64, {WIDTH})
with torch.no_grad():
    expected = model(x)
    weights = sum(p.numel() * 4 for p in model.parameters())
    model.to("hpu")
    small = torch.compile(nn.ReLU(), backend="hpu_backend")
    small(x.to("hpu"))  # what the process needs once
    before = resident()
    compiled = torch.compile(model, backend="hpu_backend")
    for _ in range(5):
        result = compiled(x.to("hpu"))
    torch.hpu.synchronize()
    served = resident() - before
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
    model.cpu()
    torch.testing.assert_close(model(x), expected)
print(json.dumps({{"weights": weights, "served": served}}))
"""


def test_a_served_model_needs_its_weights_once(private_cache):
    found = run_python(private_cache, MEASURE)
    # Two copies would give 1.0; the rest is the compiler client, code and activations.
    assert found["served"] < 0.5 * found["weights"], found


def served(model: nn.Module, example: torch.Tensor) -> nn.Module:
    """The model compiled on hpu and called until its weights exist in packed copies only."""
    compiled = torch.compile(copy.deepcopy(model).to("hpu"), backend="hpu_backend")
    with torch.no_grad():
        for _ in range(4):
            compiled(example.to("hpu"))
    return compiled


def test_weights_come_back_unchanged():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(300, 517), nn.GELU(), nn.Linear(517, 300)).eval()
    compiled = served(model, torch.randn(40, 300))
    for name, value in compiled.state_dict().items():
        wanted = model.state_dict()[name.removeprefix("_orig_mod.")]
        assert torch.equal(value.cpu(), wanted), name
        assert torch.equal((value + 0).cpu(), wanted), name
        assert torch.equal(value.t()[3:5].cpu(), wanted.t()[3:5]), name


def test_programs_of_other_shapes_share_the_weights():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).eval()
    compiled = served(model, torch.randn(64, 256))
    with torch.no_grad():
        for rows in (1, 64, 7, 1, 128, 64, 3, 64):
            x = torch.randn(rows, 256)
            torch.testing.assert_close(compiled(x.to("hpu")).cpu(), model(x), rtol=1e-4, atol=1e-5)


def test_a_written_weight_is_seen():
    torch.manual_seed(2)
    model = nn.Linear(512, 512).eval()
    x = torch.randn(64, 512)
    compiled = served(model, x)
    with torch.no_grad():
        for step in range(3):
            model.weight[step * 7, 5:9] += 1
            compiled.weight[step * 7, 5:9] += 1
            for _ in range(4):
                torch.testing.assert_close(
                    compiled(x.to("hpu")).cpu(), model(x), rtol=1e-4, atol=1e-4
                )
    assert torch.equal(compiled.weight.cpu(), model.weight)


def test_convolution_weights_come_back_unchanged():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(64, 70, 3), nn.ReLU(), nn.Conv2d(70, 64, 3)).eval()
    compiled = served(model, torch.randn(1, 64, 20, 20))
    for name, value in compiled.state_dict().items():
        assert torch.equal(value.cpu(), model.state_dict()[name.removeprefix("_orig_mod.")]), name


def test_bfloat16_weights_come_back_unchanged():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 511)).bfloat16().eval()
    compiled = served(model, torch.randn(64, 512).bfloat16())
    for name, value in compiled.state_dict().items():
        assert torch.equal(value.cpu(), model.state_dict()[name.removeprefix("_orig_mod.")]), name
