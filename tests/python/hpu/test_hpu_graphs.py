"""torch.hpu's graphs (bridge.md section 2): the wrapped callables are compiled."""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import fresh_process
from torch import nn
from training_case import assert_close, matrix, only_graph

import habana_frameworks.torch as ht
from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.hpu import ModuleCacher
from habana_frameworks.torch.internal import notices


@pytest.fixture
def models():
    fresh_process()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
    return model, copy.deepcopy(model).to("hpu")


def test_a_wrapped_module_is_compiled_in_place(models, caplog, monkeypatch):
    monkeypatch.setattr(notices, "_said", set())
    model, wrapped = models
    assert ht.hpu.wrap_in_hpu_graph(wrapped, asynchronous=True, max_graphs=3) is wrapped
    assert list(wrapped.state_dict()) == list(model.state_dict())
    with torch.no_grad():
        assert_close(wrapped(matrix(2, 4).to("hpu")), model(matrix(2, 4)))
        only_graph()
        assert_close(wrapped(matrix(5, 4).to("hpu")), model(matrix(5, 4)))
        other = copy.deepcopy(wrapped)
        other[0].weight.zero_()
        assert_close(wrapped(matrix(2, 4).to("hpu")), model(matrix(2, 4)))
        assert_close(other(matrix(2, 4).to("hpu")), model[0].bias.tanh().expand(2, 8))
    told = [r.message for r in caplog.records if r.name == "habana_frameworks.torch"]
    assert [line.partition(" has")[0] for line in told] == ["asynchronous=True", "max_graphs=3"]


def test_a_wrapped_function_is_compiled():
    fresh_process()
    function = ht.hpu.graphs.wrap_in_hpu_graph_func(lambda x: x.exp() + 1)
    assert_close(function(matrix(3).to("hpu")), matrix(3).exp() + 1)
    only_graph()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda m: ModuleCacher(max_graphs=5)(model=m, have_grad_accumulation=True),
        lambda m: ModuleCacher()(m, inplace=False),
    ],
    ids=["cacher", "beside"],
)
def test_a_wrapped_module_trains(models, wrap):
    model, device_model = models
    wrapped = wrap(device_model)
    wrapped(matrix(2, 4).to("hpu")).square().sum().backward()
    model(matrix(2, 4)).square().sum().backward()
    for ours, theirs in zip(device_model.parameters(), model.parameters(), strict=True):
        assert_close(ours.grad, theirs.grad)
    only_graph()


@pytest.mark.parametrize("name", ["GraphModel", "CachedParams", "TensorPacker"])
def test_the_references_cache_of_captures_is_refused_with_what_to_use(name):
    assert not hasattr(ht.hpu, name)
    with pytest.raises(AttributeError, match=f"'{name}': .*wrap_in_hpu_graph compiles instead"):
        getattr(ht.hpu, name)


def test_sync_debug_mode():
    with pytest.raises(ValueError, match="expected 0 to 2"):
        ht.hpu.set_sync_debug_mode("loud")
    for mode in ("warn", 0):
        ht.hpu.set_sync_debug_mode(mode)
        assert ht.hpu.get_sync_debug_mode() == (1 if mode == "warn" else 0)


def test_each_wrapped_module_has_dynamos_limit_for_itself():
    fresh_process()
    x = torch.ones(2, 4, device="hpu")
    with torch.no_grad():
        for width in range(3, 13):
            ht.hpu.wrap_in_hpu_graph(nn.Linear(4, width).to("hpu"))(x)
    graphs = report().graphs
    assert [graph.origin == "eager" for graph in graphs] == [False] * 10
