"""Backwards that compiled autograd traces, with parts that are programs already."""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import fresh_process
from torch import nn
from torch._dynamo import compiled_autograd
from training_case import assert_close, matrix

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.compile_backend.experimental import enable_compiled_autograd


@pytest.fixture
def back_to_plain_autograd():
    config = torch._dynamo.config
    before = config.optimize_ddp, config.compiled_autograd
    yield
    config.optimize_ddp, config.compiled_autograd = before
    torch._dynamo.reset()
    compiled_autograd.reset()


@pytest.mark.parametrize("how", ["function", "dynamic", "config"])
def test_gradients(how, back_to_plain_autograd):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    device_model = copy.deepcopy(model).to("hpu")
    fresh_process()
    if how == "config":
        torch._dynamo.config.compiled_autograd = True
    else:
        enable_compiled_autograd(how == "dynamic")
    run = torch.compile(device_model, backend="hpu_backend")

    @torch.compile(backend="hpu_backend")
    def train(x):
        run(x).square().sum().backward()

    for step in range(3):
        x = matrix(4, 8, seed=step)
        train(x.to("hpu"))
        model(x).square().sum().backward()
    for ours, theirs in zip(device_model.parameters(), model.parameters(), strict=True):
        assert_close(ours.grad, theirs.grad, 1e-4, 1e-5)
    reasons = {graph.reason for graph in report().graphs if graph.origin == "eager"}
    traced = "the graph is a part of a backward that compiled autograd traced"
    assert traced in reasons <= {traced, "an input is a list"}
    assert any(graph.origin != "eager" for graph in report().graphs)
