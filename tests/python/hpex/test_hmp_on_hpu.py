"""habana_frameworks.torch.hpex.hmp in training and in compiled code on hpu."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process
from processes import output_of
from torch import nn
from training_case import assert_close, matrix, only_graph

from habana_frameworks.torch.hpex import hmp

pytestmark = pytest.mark.usefixtures("hmp_off_afterwards")

BF16, FP32 = torch.bfloat16, torch.float32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x):
        y = F.relu(self.norm(self.conv(x)) + 1)
        with hmp.disable_casts():
            y = y.mean((2, 3)) * 2
        return self.out(y)


def train(model, compiled, x, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        y = compiled(x)
        loss = F.cross_entropy(y, target)
        optimizer.zero_grad()
        loss.backward()
        with hmp.disable_casts():
            optimizer.step()
        assert (y.dtype, loss.dtype) == (BF16, FP32)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_training_on_hpu_is_that_on_the_cpu(compiled):
    x, target = matrix(5, 2, 6, 6), torch.tensor([0, 1, 2, 0, 1])
    torch.manual_seed(0)
    model, other = Net(), Net()
    other.load_state_dict(model.state_dict())
    model.to("hpu")
    fresh_process()
    function = torch.compile(model, backend="hpu_backend") if compiled else model
    hmp.convert()
    ours = train(model, function, x.to("hpu"), target.to("hpu"))
    if compiled:
        only_graph()
    wanted = train(other, other, x, target)
    assert ours == pytest.approx(wanted, rel=1e-2)
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        assert mine.dtype is FP32
        assert_close(mine.detach(), its.detach(), 2e-2, 2e-2)


def test_compiled_code_follows_the_switch(capsys):
    """Casts are in the graph of a function, which is traced again where they are switched."""
    x = matrix(4, 4).to("hpu")

    def function(x):
        y = x.mm(x)
        with hmp.disable_casts():
            z = x.mm(x)
        return y, z, x * y

    compiled = torch.compile(function, backend="hpu_backend", fullgraph=True)
    assert [t.dtype for t in compiled(x)] == [FP32, FP32, FP32]
    hmp.convert(isVerbose=True)
    traced = compiled(x)
    assert [t.dtype for t in traced] == [BF16, FP32, FP32]
    printed = capsys.readouterr().out
    assert re.fullmatch(
        r"casting  <method 'mm' of .*> to_bf16\ncasting  .*  to  to_fp32\n", printed
    )
    for mine, its in zip(traced, function(x), strict=True):
        assert_close(mine.float(), its.float().cpu(), 1e-2, 1e-2)
    with hmp.disable_casts():
        assert [t.dtype for t in compiled(x)] == [FP32, FP32, FP32]
    hmp.convert("O2")
    assert [t.dtype for t in compiled(x)] == [BF16, FP32, FP32]


def test_recomputed_activations_are_cast():
    """A checkpoint computes again in a thread of autograd."""
    layer, x = nn.Linear(4, 4).to("hpu"), matrix(2, 4).to("hpu")
    hmp.convert()
    y = torch.utils.checkpoint.checkpoint(lambda x: layer(x).tanh(), x, use_reentrant=False)
    assert y.dtype is BF16
    y.sum().backward()
    assert layer.weight.grad.dtype is FP32


def test_compiled_attention_in_one_graph():
    layer, x = nn.MultiheadAttention(8, 2).to("hpu"), matrix(3, 1, 8).to("hpu")
    hmp.convert()
    compiled = torch.compile(layer, backend="hpu_backend", fullgraph=True)
    given, wanted = compiled(x, x, x)[0], layer(x, x, x)[0]
    assert given.dtype is BF16
    assert_close(given.float(), wanted.float().cpu(), 2e-2, 2e-2)


def test_the_import_does_not_bring_dynamo():
    output_of(
        "import sys, torch, habana_frameworks.torch\n"
        "before = set(sys.modules)\n"
        "from habana_frameworks.torch.hpex import hmp; hmp.convert()\n"
        "new = [n for n in sys.modules if n not in before and n.startswith('torch._')]\n"
        "assert not new, new\n",
        fresh=True,
    )


def test_linear_regression_of_the_guide():  # P2
    N, D_in, D_out = 64, 1024, 512
    torch.manual_seed(1)
    device = torch.device("hpu")
    x = torch.randn(N, D_in).to(device)
    y = torch.randn(N, D_out).to(device)
    hmp.convert(opt_level="O1", bf16_file_path="", fp32_file_path="", isVerbose=False)
    model = torch.nn.Linear(D_in, D_out).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(500):
        prediction = model(x)
        loss = F.mse_loss(prediction, y)
        optimizer.zero_grad()
        loss.backward()
        with hmp.disable_casts():
            optimizer.step()
        losses.append(loss.item())
    assert prediction.dtype is BF16
    assert losses[-1] < losses[0] - 0.05
