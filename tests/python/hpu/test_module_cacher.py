"""ModuleCacher, and what scripts use that keep captures themselves."""

from __future__ import annotations

import collections
import copy

import pytest
import torch
from both_modes import close, matrix
from both_modes import mode as mode
from torch import nn

import habana_frameworks.torch as ht
from habana_frameworks.torch.hpu import ModuleCacher, TensorPacker, graphs


def models() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    return model, copy.deepcopy(model).to("hpu")


def step(model: nn.Module, x: torch.Tensor) -> None:
    model(x).square().mean().backward()


def same_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(a.grad, b.grad)


@pytest.mark.parametrize("inplace", [True, False])
def test_a_module_trains_with_captures(inplace):
    theirs, ours = models()
    cached = ModuleCacher()(ours, inplace=inplace, have_grad_accumulation=True)
    assert (cached is ours) == inplace
    cached.set_iteration_count(0)
    for rows in (2, 3, 2, 3, 2):
        step(theirs, matrix(rows, 4))
        step(cached, matrix(rows, 4).to("hpu"))
    same_gradients(ours, theirs)
    assert cached.forward.graphs.captures == 2
    assert cached.forward.graphs.replays == 5
    assert not cached.is_hpugraph_tracing()


def test_only_training_is_captured():
    theirs, ours = models()
    ModuleCacher()(ours)
    with torch.no_grad():
        close(ours(matrix(2, 4).to("hpu")), theirs(matrix(2, 4)))
    ours.eval()
    close(ours(matrix(2, 4).to("hpu")), theirs(matrix(2, 4)))
    assert ours.forward.graphs.captures == 0


def test_at_most_max_graphs_are_captured():
    theirs, ours = models()
    ModuleCacher(max_graphs=1)(ours)
    for rows in (2, 3, 2, 3):
        step(theirs, matrix(rows, 4))
        step(ours, matrix(rows, 4).to("hpu"))
    same_gradients(ours, theirs)
    assert ours.forward.graphs.captures == 1
    assert ours.forward.graphs.replays == ours.forward.graphs.others == 2


def test_the_most_frequent_calls_are_captured(caplog):
    theirs, ours = models()
    ModuleCacher(max_graphs=1)(ours, use_lfu=True, verbose=True, log_frequency=2)

    def train(*batches: int) -> None:
        for rows in batches:
            step(theirs, matrix(rows, 4))
            step(ours, matrix(rows, 4).to("hpu"))

    ours.capture_start()
    train(2, 3, 3)
    assert ours.forward.graphs.captures == 0
    ours.capture_end()
    with caplog.at_level("INFO", "habana_frameworks.torch"):
        train(2, 3, 2, 3)
    assert ours.forward.graphs.captures == 1
    assert ours.forward.graphs.replays == 2
    same_gradients(ours, theirs)
    assert "Sequential: 6 calls, 1 HPU graphs, 1 replays" in caplog.text


def test_a_module_says_while_it_is_captured():
    class Asking(nn.Linear):
        seen: list[bool] = []

        def forward(self, x):
            self.seen.append(self.is_hpugraph_tracing())
            return super().forward(x)

    model = Asking(4, 3).to("hpu")
    ModuleCacher()(model)
    step(model, matrix(2, 4).to("hpu"))
    model.orig_forward(matrix(2, 4).to("hpu"))
    assert model.seen == [True, False]


Pair = collections.namedtuple("Pair", "first second")


def test_tensors_are_packed():
    packer = TensorPacker()
    a, b, c = (torch.full((2,), value) for value in (1.0, 2.0, 3.0))
    tree = {"a": a, "rest": (b, [None, 5, "text"]), "pair": Pair(c, a)}
    tensors, metadata = packer.pack(tree)
    assert [t.tolist() for t in tensors] == [[1, 1], [2, 2], [3, 3], [1, 1]]
    other = packer.unpack([t * 10 for t in tensors], metadata)
    assert other["rest"][1] == [None, 5, "text"]
    assert other["pair"].first.tolist() == [30, 30]
    assert isinstance(other["pair"], Pair)
    assert other["rest"][0].tolist() == [20, 20]
    assert TensorPacker(is_out_pack=True, verbose=True).pack(a)[0][0] is a


def test_captures_that_a_script_keeps():
    """As the pipelines of diffusion models in optimum-habana do it."""
    cache, stream = {}, ht.hpu.Stream()

    def call(x, pair):
        inputs = [x, {"pair": pair}, False]
        key = graphs.input_hash(inputs)
        cached = cache.get(key)
        if cached is None:
            with ht.hpu.stream(stream):
                graph = ht.hpu.HPUGraph()
                graph.capture_begin()
                outputs = inputs[0] * inputs[1]["pair"][0] + inputs[1]["pair"][1]
                graph.capture_end()
                cache[key] = graphs.CachedParams(inputs, outputs, graph)
            return outputs
        graphs.copy_to(cached.graph_inputs, inputs)
        cached.graph.replay()
        ht.core.hpu.default_stream().synchronize()
        return cached.graph_outputs

    for rows in (2, 3, 2, 3):
        x = matrix(rows) + len(cache)
        h = x.to("hpu")
        torch.hpu.synchronize()
        close(call(h, (h + 1, h + 2)), x * (x + 1) + x + 2)
    assert len(cache) == 2
    with pytest.raises(ValueError, match="copy_to got 'b' in the place of 'a'"):
        graphs.copy_to({"a": h}, {"b": h})


def test_the_references_part_of_module_cacher_is_refused_with_what_to_use():
    assert not hasattr(ht.hpu, "GraphModel")
    with pytest.raises(AttributeError, match="'GraphModel': .*part of ModuleCacher"):
        _ = ht.hpu.GraphModel


def test_sync_debug_mode():
    with pytest.raises(ValueError, match="expected 0 to 2"):
        ht.hpu.set_sync_debug_mode("loud")
    for level in ("warn", 0):
        ht.hpu.set_sync_debug_mode(level)
        assert ht.hpu.get_sync_debug_mode() == (1 if level == "warn" else 0)
