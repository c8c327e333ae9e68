"""Recurrent layers, and the reference for their results on hpu."""

from __future__ import annotations

import torch
from torch import nn

MODELS = {
    "LSTM": lambda: nn.LSTM(6, 8),
    "LSTM, both directions, two layers": lambda: nn.LSTM(6, 8, 2, bidirectional=True),
    "LSTM, projected, batch first": lambda: nn.LSTM(6, 8, proj_size=3, batch_first=True),
    "LSTM, no biases": lambda: nn.LSTM(6, 8, bias=False),
    "LSTM, dropout": lambda: nn.LSTM(6, 8, 2, dropout=0.5),
    "GRU": lambda: nn.GRU(6, 8),
    "GRU, both directions, two layers": lambda: nn.GRU(
        6, 8, 2, bidirectional=True, batch_first=True
    ),
    "RNN": lambda: nn.RNN(6, 8),
    "RNN, relu": lambda: nn.RNN(6, 8, nonlinearity="relu", bidirectional=True),
}


def assert_same(ours, theirs):
    for x, y in zip(leaves(ours), leaves(theirs), strict=True):
        assert x.device.type == "hpu"
        torch.testing.assert_close(x.detach().cpu(), y.detach(), rtol=1e-5, atol=1e-5)


def with_gradients(model, x, state):
    """Results, and the gradients of a weighted sum of them."""
    results = leaves(model(x, state))
    weights = [torch.linspace(-1, 1, r.numel()).reshape(r.shape).to(r.device) for r in results]
    loss = sum((r * w).sum() for r, w in zip(results, weights, strict=True))
    given = [x, *leaves([] if state is None else state), *model.parameters()]
    return [*results, *torch.autograd.grad(loss, given)]


def on_hpu(value):
    """Leaves on hpu that require a gradient."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("hpu").requires_grad_()
    return None if value is None else tuple(map(on_hpu, value))


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in leaves(item)]
