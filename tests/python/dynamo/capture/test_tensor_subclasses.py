"""Tensors made of other tensors, such as torchao's quantised weights, which AOTAutograd takes
apart."""

from __future__ import annotations

import pytest
import torch
from helpers import fresh_process
from torch.testing._internal.two_tensor import TwoTensor

from habana_frameworks.torch.dynamo import report


@pytest.fixture(autouse=True)
def fresh():
    fresh_process()


def pair(device: str) -> TwoTensor:
    return TwoTensor(torch.arange(6.0).reshape(2, 3).to(device), torch.ones(2, 3).to(device))


def check(summary, reason: str) -> None:
    assert summary.eager_segments == 0
    (record,) = summary.graphs
    assert record.origin == "compiled"
    assert record.parted_because == reason


def test_an_input_that_is_made_of_others():
    def function(x, y):
        return (x @ y).relu() + 1

    y = torch.randn(3, 4)
    got = torch.compile(function, backend="hpu_backend")(pair("hpu"), y.to("hpu"))
    want = function(pair("cpu"), y)
    assert type(got) is TwoTensor
    torch.testing.assert_close(got.a.cpu(), want.a)
    torch.testing.assert_close(got.b.cpu(), want.b)
    check(report(), "input l_x_ is a TwoTensor")


def test_a_graph_that_makes_one():
    def function(a, b, y):
        return (TwoTensor(a, b) @ y).sum()

    a, b, y = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3, 4)
    compiled = torch.compile(function, backend="hpu_backend")
    got = compiled(*(x.to("hpu") for x in (a, b, y)))
    want = function(a, b, y)
    torch.testing.assert_close(got.a.cpu(), want.a)
    torch.testing.assert_close(got.b.cpu(), want.b)
    assert report().eager_segments == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_torchao(dtype):
    pytest.importorskip("torchao", reason="weight-only quantisation")
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32)
    ).to(dtype)
    quantize_(model, Int8WeightOnlyConfig())
    x = torch.randn(5, 64, dtype=dtype)
    with torch.no_grad():
        want = model(x)
        got = torch.compile(model.to("hpu"), backend="hpu_backend")(x.to("hpu"))
    # Two layers round, and their values are about 1.
    tolerance = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=tolerance)
    check(report(), "input l_fn_modules_0_parameters_weight_ is a Int8Tensor")
