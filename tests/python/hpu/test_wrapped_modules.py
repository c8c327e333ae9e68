"""wrap_in_hpu_graph: calls of modules are captured by what they are given, and replayed."""

from __future__ import annotations

import collections
import dataclasses
import gc

import pytest
import torch
from both_modes import close, matrix
from both_modes import mode as mode
from torch import nn
from wrapping_case import layers, on_hpu, wrapped
from wrapping_case import told as told

import habana_frameworks.torch as ht


def test_one_capture_for_each_form_of_the_inputs():
    model, module = layers()
    counted, graphs = wrapped(module.eval())
    model.eval()
    with torch.no_grad():
        results = [
            (counted(on_hpu(rows, 4)), model(matrix(rows, 4))) for rows in (2, 5, 2, 7, 5, 2)
        ]
    assert counted.calls == graphs.captures == len(graphs) == 3
    assert graphs.replays == 6
    assert graphs.others == 0
    for ours, theirs in results:  # a later replay does not overwrite a result
        close(ours, theirs)


def test_a_transposed_input_and_another_type_are_other_captures():
    counted, graphs = wrapped(lambda x: x * 2)
    for x in (matrix(3, 3), matrix(3, 3).t(), matrix(3, 3).double()):
        for _ in range(2):
            assert torch.equal(counted(x.to("hpu")).cpu(), x * 2)
    assert graphs.captures == 3


Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class Batch:
    tensor: torch.Tensor
    scale: float


def test_trees_of_inputs_and_results():
    def function(x, *, pair, batch, items):
        total = x + pair.first * batch.scale + batch.tensor
        return {"total": total, "items": [items["a"][0] - 1, None], "pair": Pair(x.sum(), "text")}

    counted, graphs = wrapped(function)
    for shift in (0.0, 1.0):
        x = matrix(3) + shift
        h = x.to("hpu")
        result = counted(
            h, pair=Pair(h * 2, 1), batch=Batch(h * 3, 0.5), items={"a": (h * 4,), "b": 5}
        )
        close(result["total"], x + x + x * 3)
        close(result["items"][0], x * 4 - 1)
        assert result["items"][1] is None
        close(result["pair"].first, x.sum())
        assert result["pair"].second == "text"
        assert isinstance(result["pair"], Pair)
    assert counted.calls == graphs.captures == 1


def test_values_are_part_of_the_key():
    counted, _ = wrapped(lambda x, by=1, flag=False: -x * by if flag else x * by)
    x = matrix(3)
    for by, flag in ((2, False), (2.0, False), (True, False), (2, True), (0.0, False)):
        for _ in range(2):
            close(counted(on_hpu(3), by=by, flag=flag), (-x if flag else x) * by)
    assert counted.calls == 5
    assert torch.equal(counted(on_hpu(3), by=-0.0).cpu().signbit(), (x * -0.0).signbit())


def test_at_most_max_graphs():
    counted, graphs = wrapped(lambda x: x + 1, max_graphs=2)
    for _ in range(2):
        for rows in (1, 2, 3, 4):
            close(counted(on_hpu(rows)), matrix(rows) + 1)
    assert graphs.captures == len(graphs) == 2
    assert graphs.replays == graphs.others == 4
    counted.clear_cache()
    assert len(graphs) == 0
    close(counted(on_hpu(4)), matrix(4) + 1)
    assert len(graphs) == 1


def test_a_call_may_ask_for_no_graph():
    counted, graphs = wrapped(lambda x: x + 1)
    for _ in range(2):
        close(counted(on_hpu(3), bypass_hpu_graphs=True), matrix(3) + 1)
        close(counted(on_hpu(3), bypass_hpu_graphs=False, cache_tensors_list=[]), matrix(3) + 1)
    assert counted.calls == 3
    assert graphs.captures == 1


NEED_THE_HOST = {
    "item": (
        lambda x: x * x.sum().item(),
        "aten::_local_scalar_dense (item()) cannot be",
    ),
    "the input's element": (lambda x: x * x[0].item(), "it stands for an argument"),
    "branch": (lambda x: x if x.sum() > 0 else -x, "cannot be part of it"),
    "nonzero": (lambda x: x[x > 0], "aten::index cannot be part of it"),
}


@pytest.mark.parametrize("what", NEED_THE_HOST)
def test_what_needs_the_host_runs_without_a_graph(what, told):
    function, reason = NEED_THE_HOST[what]
    counted, graphs = wrapped(function)
    for shift in (0.0, 1.0, 5.0):
        x = matrix(5) + shift
        close(counted(x.to("hpu")), function(x))
    assert graphs.captures == 0
    assert graphs.others == 3
    (line,) = told()
    assert line.startswith("Counted runs without an HPU graph: ")
    assert reason in line


def test_inputs_that_cannot_be_captured(told):
    class Box:
        def __init__(self, tensor):
            self.tensor = tensor

    counted, graphs = wrapped(lambda x: x.tensor * 2 if isinstance(x, Box) else x * 2)
    for x in (matrix(3), Box(on_hpu(3)), Box(on_hpu(3) + 1)):
        want = x if isinstance(x, torch.Tensor) else x.tensor.cpu()
        close(counted(x), want * 2)
    assert graphs.captures == 0
    assert [line.partition(": ")[2] for line in told()] == [
        "an argument is a tensor on cpu (torch.strided)",
        "an argument has a Box, which may hold tensors",
    ]


def test_an_exception_reaches_the_caller_and_leaves_the_module_as_it_was():
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))
            self.fail = True

        def forward(self, x):
            self.seen += 1
            self.seen = self.seen * 2
            if self.fail:
                raise KeyError("the user's own")
            return x + self.seen

    module = ht.hpu.wrap_in_hpu_graph(Failing().to("hpu"))
    with pytest.raises(KeyError, match="the user's own"):
        module(on_hpu(2))
    close(module.seen, torch.full((2,), 2.0))  # once, by the call without a graph
    module.fail = False
    close(module(on_hpu(2)), matrix(2) + 6)


def test_random_numbers_are_those_of_eager_mode():
    dropout = nn.Dropout(0.5).to("hpu")
    counted, graphs = wrapped(nn.Dropout(0.5).to("hpu"))
    counted.train()
    seen = []
    for module in (dropout, counted):
        torch.manual_seed(7)
        seen.append([module(torch.ones(64, device="hpu")).cpu() for _ in range(3)])
    assert graphs.captures == 1
    assert not torch.equal(seen[0][0], seen[0][1])
    for eager, ours in zip(*seen, strict=True):
        assert torch.equal(eager, ours)


def test_an_argument_that_is_written_is_the_callers():
    def step(cache, position, x):
        cache.index_copy_(0, position, x)
        return cache.sum(0)

    counted, graphs = wrapped(step)
    ours, theirs = torch.zeros(4, 3, device="hpu"), torch.zeros(4, 3)
    for row in (0, 2, 3):
        position, x = torch.tensor([row]), matrix(1, 3) + row
        close(counted(ours, position.to("hpu"), x.to("hpu")), step(theirs, position, x))
        close(ours, theirs)
    assert graphs.captures == 1
    assert ours._version == 3


def test_a_result_as_the_next_input():
    counted, graphs = wrapped(lambda x: (x + 1, x))
    x = on_hpu(3)
    for _ in range(3):
        x, same = counted(x)
    close(x, matrix(3) + 3)
    close(same, matrix(3) + 2)
    assert graphs.captures == 1


def test_written_arguments_that_overlap_run_without_a_graph():
    def function(x, y):
        x.add_(y)
        return x * 2

    counted, graphs = wrapped(function)
    x, base = matrix(4), on_hpu(4)
    close(counted(on_hpu(3), on_hpu(3)), matrix(3) * 4)
    close(counted(base[:3], base.clone()[1:]), (x[:3] + x[1:]) * 2)
    both = on_hpu(3)
    close(counted(both, both), matrix(3) * 4)
    assert graphs.captures == 2
    shared = on_hpu(3)
    close(counted(shared, shared.view(3)), matrix(3) * 4)
    assert graphs.others == 1


def test_autocast_is_part_of_the_key():
    counted, graphs = wrapped(nn.Linear(4, 3).to("hpu"))
    weight = counted.function.weight
    with torch.no_grad():
        for dtype in (torch.bfloat16, torch.float16):
            with torch.autocast("hpu", dtype=dtype):
                for scale in (2.0, 0.5):  # a cast of the weight must not be kept
                    result = counted(on_hpu(2, 4))
                    want = torch.nn.functional.linear(on_hpu(2, 4), weight, counted.function.bias)
                    assert result.dtype == dtype
                    assert torch.equal(result.cpu(), want.cpu())
                    weight.mul_(scale)
                    torch.clear_autocast_cache()
        assert counted(on_hpu(2, 4)).dtype == torch.float32
    assert graphs.captures == 3


def test_a_graph_keeps_no_memory():
    counted, _ = wrapped(lambda x: (x @ x).relu() @ x)
    x = on_hpu(128, 128)
    counted(x)
    gc.collect()
    torch.hpu.synchronize()
    before = torch.hpu.memory_allocated()
    for rows in (256, 128, 256):
        y = on_hpu(rows, rows)
        with torch.no_grad():
            counted(y)
        del y
    x.requires_grad_()
    for _ in range(2):
        counted(x).sum().backward()
        x.grad = None
    gc.collect()
    torch.hpu.synchronize()
    assert torch.hpu.memory_allocated() <= before + 4096


def test_a_wrapped_module_in_another_one():
    model, module = layers()
    inner = ht.hpu.wrap_in_hpu_graph(module[0])
    ht.hpu.wrap_in_hpu_graph(module.eval())
    model.eval()
    with torch.no_grad():
        for _ in range(2):
            close(module(on_hpu(2, 4)), model(matrix(2, 4)))
    assert module.forward.graphs.captures == 1
    assert inner.forward.graphs.captures == 0


def test_a_wrapped_module_that_is_wrapped_again():
    model, module = layers()
    for _ in range(2):
        ht.hpu.wrap_in_hpu_graph(module.eval())
    with torch.no_grad():
        for _ in range(2):
            close(module(on_hpu(2, 4)), model.eval()(matrix(2, 4)))
    assert module.forward.graphs.captures == 1


def test_a_wrapped_module_in_a_capture():
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module.eval())
    x, graph = on_hpu(2, 4), torch.hpu.HPUGraph()
    with torch.no_grad(), torch.hpu.graph(graph):
        result = module(x)
    x.add_(1)
    graph.replay()
    close(result, model.eval()(matrix(2, 4) + 1))
    assert module.forward.graphs.captures == 0


class Cache:
    """A result that is no container."""

    def __init__(self, keys):
        self.keys = keys
        self.layers = [keys * 2]


def test_a_result_of_any_class():
    counted, graphs = wrapped(lambda x: (x + 1, Cache(x * 3)))
    results = [counted((matrix(3) + shift).to("hpu")) for shift in (0.0, 1.0)]
    for shift, (plus, cache) in enumerate(results):
        x = matrix(3) + shift
        close(plus, x + 1)
        close(cache.keys, x * 3)
        close(cache.layers[0], x * 6)
    assert graphs.captures == 1


def test_inference_mode():
    model, module = layers()
    ht.hpu.wrap_in_hpu_graph(module.eval())
    for context in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        with context():
            close(module(on_hpu(2, 4)), model.eval()(matrix(2, 4)))
    assert module.forward.graphs.captures == 1


def test_functions():
    scale = on_hpu(3)
    function = ht.hpu.wrap_in_hpu_graph_func(lambda x: x.exp() * scale)
    for _ in range(2):
        close(function(on_hpu(3)), matrix(3).exp() * matrix(3))
    scale.zero_()  # what it uses besides is read in place
    close(function(on_hpu(3)), torch.zeros(3))
    assert function.graphs.captures == 1


def test_arguments_without_an_effect_say_why(told):
    ht.hpu.wrap_in_hpu_graph(
        nn.Linear(2, 2),
        asynchronous=True,
        disable_tensor_cache=True,
        dry_run=True,
        hash_with_views=False,
    )
    assert [line.partition(" has")[0] for line in told()] == [
        "asynchronous=True",
        "disable_tensor_cache=True",
        "dry_run=True",
        "hash_with_views=False",
    ]
    with pytest.raises(TypeError, match="takes a module, not a function"):
        ht.hpu.wrap_in_hpu_graph(lambda x: x)
