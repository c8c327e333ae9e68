"""Operators whose dropout is off, such as attention in inference, leave the generator alone,
whichever way they run."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from eager_case import place_on_cpu
from helpers import fresh_process
from lazy_case import lazy_mode
from torch import nn

LSTM = nn.LSTM(30, 4, num_layers=2).to("hpu").eval()
SWITCHED_OFF = {
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(2, 2, 5, 30)] * 3),
    "causal attention": lambda x: F.scaled_dot_product_attention(
        *[x.view(2, 2, 5, 30)] * 3, is_causal=True
    ),
    "attention of three dimensions": lambda x: F.scaled_dot_product_attention(*[x[None]] * 3),
    "rrelu": lambda x: F.rrelu(x) * 2,
    "native_dropout": lambda x: torch.native_dropout(x, 0.3, False),
    "dropout": lambda x: F.dropout(x, 0.3, False) * 2,
    "dropout of nothing": lambda x: F.dropout(x, 0.0, True) * 2,
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x[None], 0.3, False) * 2,
    "lstm": lambda x: LSTM(x)[0],
}


# The direct way comes first, because the others leave programs that it would take.
@pytest.mark.parametrize("way", ["direct", "compiled", "lazy", "only in recipes"])
@pytest.mark.parametrize("case", SWITCHED_OFF)
def test_what_drops_nothing_draws_nothing(case, way):
    function = SWITCHED_OFF[case]
    if way == "compiled":
        fresh_process()
        function = torch.compile(function, backend="hpu_backend", dynamic=False)
    x = torch.linspace(-1, 1, 600).reshape(20, 30).to("hpu")
    torch.hpu.manual_seed(7)
    before = torch.hpu.get_rng_state()
    modes = {"lazy": lazy_mode, "only in recipes": lambda: place_on_cpu("none")}
    with modes.get(way, contextlib.nullcontext)(), torch.no_grad():
        function(x)
    assert torch.equal(torch.hpu.get_rng_state(), before)
