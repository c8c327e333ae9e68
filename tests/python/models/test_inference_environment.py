"""htcore.hpu_set_env, hpu_initialize and their newer names (bridge.md section 3)."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from habana_frameworks.torch import core as htcore
from habana_frameworks.torch.core import quantization
from habana_frameworks.torch.internal import bridge_config


@pytest.fixture(autouse=True)
def unset_flags(monkeypatch):
    monkeypatch.setattr(bridge_config, "_set_values", {})


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.norm(self.conv(x)))


def net() -> Net:
    torch.manual_seed(0)
    model = Net()
    model(torch.randn(4, 3, 8, 8))  # running statistics that are not the initial ones
    return model.eval()


@pytest.mark.parametrize("set_env", [htcore.hpu_set_env, htcore.hpu_set_inference_env])
def test_batch_norms_are_folded_in_a_copy(set_env):
    model = net()
    x = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        wanted = model(x)
        fused = set_env(model)
        assert [type(m) for m in fused.children()] == [nn.Conv2d, nn.ReLU]
        torch.testing.assert_close(fused(x), wanted)
        torch.testing.assert_close(fused.to("hpu")(x.to("hpu")).cpu(), wanted)
        assert isinstance(model.norm, nn.BatchNorm2d) and model.conv.bias is None
    assert set_env() is None


class Untraceable(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: net().train(), "Net are not folded: it is in training mode"),
        (lambda: net().to("hpu"), "Net are not folded: it is not on the CPU any more"),
        (lambda: Untraceable(2, 2).eval(), "Untraceable are not folded: torch.fx cannot trace"),
    ],
    ids=["training", "moved", "untraceable"],
)
def test_model_that_cannot_be_folded_comes_back(caplog, model, reason):
    given = model()
    assert htcore.hpu_set_inference_env(given) is given
    assert reason in caplog.text


@pytest.mark.parametrize("initialize", [htcore.hpu_initialize, htcore.hpu_inference_initialize])
def test_initialize(told, initialize):
    names = list(inspect.signature(initialize).parameters)
    assert names[:4] == ["model", "mark_only_scales_as_const", "optimizer", "args"]
    only_inference = ["mark_scales", "mark_non_scales"]
    assert names[4:] == (only_inference if "inference" in initialize.__name__ else [])
    model = net().to("hpu")
    before = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    for _ in range(2):
        assert initialize(model, mark_only_scales_as_const=True, optimizer=None, args=None) is None
    assert all(torch.equal(t.cpu(), before[name]) for name, t in model.state_dict().items())
    assert [line.partition(" has no effect")[0] for line in told()] == [
        "PT_HPU_INFERENCE_MODE=True",
        "PT_HPU_MATMUL3D_2D_RESHAPE=True",
        "marking parameters as constants",
    ]
    assert "weights are inputs; packed forms" in told()[2]


@pytest.mark.parametrize(
    "teardown", [htcore.hpu_reset_env, htcore.hpu_teardown_inference_env], ids=["old", "new"]
)
def test_teardown_ends_inference_mode(teardown):
    htcore.hpu_set_inference_env()
    assert bridge_config.get_pt_hpu_inference_mode() is True
    assert bridge_config.get_pt_hpu_matmul3d_2d_reshape() is True
    teardown()
    assert bridge_config.get_pt_hpu_inference_mode() is False
    assert bridge_config.get_pt_hpu_matmul3d_2d_reshape() is False


def test_whole_sequence_of_an_inference_script():
    model = net()
    x = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        wanted = model(x)
        htcore.hpu_set_inference_env()
        compiled = torch.compile(model.to("hpu"), backend="hpu_backend")
        htcore.hpu_inference_initialize(model)
        torch.testing.assert_close(compiled(x.to("hpu")).cpu(), wanted)
        htcore.hpu_teardown_inference_env()


def test_marking_by_hand(told):
    quantization._mark_params_as_const(net(), only_scales=False)
    quantization._check_params_as_const(net())
    assert len(told()) == 1
