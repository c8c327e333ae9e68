"""nn.LSTM, nn.GRU and nn.RNN: recipes, with their gradients, where they are compiled, and one CPU
call where they run eagerly.

Guide rows: FALL-1, FALL-2 (eager segments), MODE-3 (eager mode).
"""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import fresh_process
from processes import output_of
from recurrent_models import MODELS, assert_same
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo import report


@pytest.mark.parametrize("unbatched", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_compiled_to_recipes(name, unbatched):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    x = torch.randn(5, 6) if unbatched else torch.randn(5, 3, 6)
    with torch.no_grad():
        expected = model(x)
        fresh_process()
        compiled = torch.compile(copy.deepcopy(model).to("hpu"), backend="hpu_backend")
        assert_same(compiled(x.to("hpu")), expected)
    (graph,) = report().graphs
    assert (graph.origin == "eager", graph.eager_nodes, graph.recipes) == (False, 0, 1)


IN_A_THREAD = """
import threading, torch
import habana_frameworks.torch.dynamo.compile_backend.backends
from habana_frameworks.torch.dynamo import report

def work():
    with torch.no_grad():
        model(torch.ones(5, 2, 6, device="hpu"))

model = torch.compile(torch.nn.GRU(6, 8).to("hpu"), backend="hpu_backend")
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(len(report().graphs), report().eager_segments)
"""


def test_compiled_in_a_thread_of_a_service():
    """A setting in torch._dynamo.config holds in the thread that makes it."""
    assert output_of(IN_A_THREAD).stdout.split() == ["1", "0"]


@pytest.mark.parametrize("mode", ["training", "training in bf16", "inference in bf16"])
def test_as_many_calls_are_recorded_for_more_steps(mode):
    model = nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True).to("hpu")
    nodes = []
    for steps in (3, 40):
        fresh_process()
        compiled = torch.compile(model, backend="hpu_backend", dynamic=False)
        with (
            torch.set_grad_enabled("training" in mode),
            torch.autocast("hpu", torch.bfloat16, enabled="bf16" in mode),
        ):
            compiled(torch.randn(2, steps, 6, device="hpu"))
        (graph,) = report().graphs
        assert (graph.origin, graph.eager_nodes) == ("compiled", 0)
        nodes.append(graph.nodes)
    assert nodes[0] == nodes[1]


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_dynamo_traces_no_steps(mode, monkeypatch):
    """Steps would show as fake tensors: each call of PyTorch's composition is one of them."""
    dispatch = FakeTensorMode.dispatch
    calls = []

    def counted(self, func, *more):
        calls.append(func)
        return dispatch(self, func, *more)

    monkeypatch.setattr(FakeTensorMode, "dispatch", counted)
    compiled = torch.compile(nn.GRU(6, 8, device="hpu"), backend="hpu_backend", dynamic=False)
    for steps in (3, 40):
        calls.clear()
        with mode():
            y, _ = compiled(torch.ones(steps, 2, 6, device="hpu"))
        assert y.shape == (steps, 2, 8)
        assert 0 < len(calls) < 150


def test_a_given_state_and_a_model_around():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 6)
            self.lstm = nn.LSTM(6, 8, batch_first=True)
            self.head = nn.Linear(8, 4)

        def forward(self, tokens, state):
            hidden, state = self.lstm(self.embedding(tokens), state)
            return self.head(hidden).log_softmax(-1), state

    torch.manual_seed(0)
    model = Tagger().eval()
    tokens = torch.arange(12).view(3, 4)
    state = (torch.randn(1, 3, 8), torch.randn(1, 3, 8))
    with torch.no_grad():
        expected = model(tokens, state)
        fresh_process()
        compiled = torch.compile(model.to("hpu"), backend="hpu_backend", fullgraph=True)
        assert_same(compiled(tokens.to("hpu"), [s.to("hpu") for s in state]), expected)
    assert report().eager_segments == 0


def test_more_steps_than_a_recipe_takes_run_eagerly_as_one_call():
    torch.manual_seed(0)
    model = nn.RNN(2, 2).eval()
    x = torch.randn(4097, 1, 2)
    with torch.no_grad():
        expected = model(x)
        fresh_process()
        assert_same(torch.compile(model.to("hpu"), backend="hpu_backend")(x.to("hpu")), expected)
    assert report().graphs[-1].eager_nodes == 1
    assert "4097 steps; a recipe takes at most 4096" in str(report())


def test_bf16():
    torch.manual_seed(0)
    model = nn.LSTM(6, 8).eval()
    x = torch.randn(5, 3, 6)
    with torch.no_grad():
        expected = model(x)[0]
        fresh_process()
        compiled = torch.compile(model.to("hpu", torch.bfloat16), backend="hpu_backend")
        ours = compiled(x.to("hpu", torch.bfloat16))[0]
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float().cpu(), expected, rtol=0.02, atol=0.02)
    assert report().eager_segments == 0


@pytest.mark.parametrize("name", MODELS)
def test_eager_is_one_call_and_has_gradients(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    ours = copy.deepcopy(model).to("hpu")
    x = torch.randn(5, 3, 6)
    model(x)[0].sum().backward()
    module = native.torch_module()
    with torch.no_grad():
        module.reset_op_counts()
        assert_same(ours(x.to("hpu")), model(x))
        counts = module.op_counts()
        assert [n for n in counts if n in ("lstm", "gru", "rnn_tanh", "rnn_relu")]
        assert "addmm" not in counts and "mm" not in counts
    ours(x.to("hpu"))[0].sum().backward()
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_sequences(kind):
    torch.manual_seed(0)
    model = getattr(nn, kind)(6, 8, bidirectional=True).eval()
    x = torch.randn(5, 3, 6)

    def run(model, x):
        packed = pack_padded_sequence(x, torch.tensor([5, 3, 2]))
        output, state = model(packed)
        return pad_packed_sequence(output)[0], state

    with torch.no_grad():
        expected = run(model, x)
        fresh_process()
        model = model.to("hpu")
        assert_same(run(model, x.to("hpu")), expected)
        assert_same(torch.compile(run, backend="hpu_backend")(model, x.to("hpu")), expected)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_a_type_that_the_cpu_kernel_lacks_is_widened(dtype):
    """Routers of mixtures of experts count with histc of integers on accelerators."""
    experts = torch.tensor([0, 3, 3, 1, 7, 3], dtype=dtype)
    with pytest.raises(NotImplementedError):
        torch.histc(experts, bins=8, min=0, max=7)
    counts = torch.histc(experts.to("hpu"), bins=8, min=0, max=7)
    assert counts.dtype == dtype
    assert counts.tolist() == [1, 1, 0, 3, 0, 0, 0, 1]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("compiled", [False, True])
def test_autocast(mode, compiled):
    """The input is bf16, the weights are f32: autocast works on the layer's parts."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.LSTM(6, 8)).eval()
    x = torch.randn(5, 3, 6)
    with torch.no_grad():
        expected = model(x)[0]
    model = model.to("hpu")
    fresh_process()
    run = torch.compile(model, backend="hpu_backend") if compiled else model
    with mode(), torch.autocast("hpu", torch.bfloat16):
        ours = run(x.to("hpu"))[0]
    torch.testing.assert_close(ours.float().cpu(), expected, rtol=0.03, atol=0.03)


def test_in_a_graph_that_writes_to_its_input():
    torch.manual_seed(0)
    model = nn.LSTM(6, 8).eval()

    def run(x):
        x.mul_(2)
        return model(x)

    x = torch.randn(5, 3, 6)
    with torch.no_grad():
        expected = run(x.clone())
        model = model.to("hpu")
        fresh_process()
        assert_same(torch.compile(run, backend="hpu_backend")(x.to("hpu")), expected)
    (graph,) = report().graphs
    assert (graph.origin, graph.eager_nodes) == ("compiled", 0)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("which", ["state", "weight", "gradient"])
def test_a_layer_of_other_ranks_is_refused(which, rank):
    """No PyTorch program makes such calls, but a server has to handle what it is sent."""
    x, state = torch.ones(3, 2, 4, device="hpu"), torch.ones(2, 5, device="hpu")
    weights = [torch.ones(15, n, device="hpu") for n in (4, 5)]
    odd = torch.ones((2,) * rank, device="hpu")
    if which == "state":
        state = odd
    elif which == "weight":
        weights[0] = odd

    def call(x, state, odd, *weights):
        op = torch.ops.hpu.recurrent_layer_backward
        return op("gru", [odd if which == "gradient" else None, None], x, [state], weights, False)

    fresh_process()
    with pytest.raises((RuntimeError, IndexError)), torch.no_grad():
        torch.compile(call, backend="hpu_backend")(x, state, odd, *weights)
    (graph,) = report().graphs
    assert "signal" not in graph.reason


def test_other_backends_leave_layers_out_of_graphs():
    """PyTorch leaves them out by default; otherwise they would be traced without hpu's own ops."""
    layer = nn.LSTM(4, 4)
    x = torch.randn(3, 2, 4)
    graphs = []

    def other(gm, _):
        graphs.append(gm)
        return gm.forward

    with torch.no_grad():
        ours = torch.compile(layer.to("hpu"), backend="hpu_backend")
        before = len(report().graphs)
        assert_same(ours(x.to("hpu")), layer.cpu()(x))
        assert len(report().graphs) == before + 1
        torch._dynamo.reset()
        torch.compile(layer, backend=other)(x)
    assert not any("lstm" in str(node.target) for gm in graphs for node in gm.graph.nodes)


_SETTINGS = """
import torch
import habana_frameworks.torch
from habana_frameworks.torch.dynamo import report

config = torch._dynamo.config
layer, x = torch.nn.LSTM(4, 4).to("hpu"), torch.randn(3, 2, 4).to("hpu")

def graphs():
    torch._dynamo.reset()
    before = len(report().graphs)
    with torch.no_grad():
        torch.compile(layer, backend="hpu_backend")(x)
    return len(report().graphs) - before

revert = config._make_closure_patcher(allow_rnn=False)()
found = [graphs()]
revert()
found.append(graphs())
torch.export.export(torch.nn.Linear(3, 3), (torch.randn(2, 3),))
assert not config._is_default("allow_rnn")
print([*found, graphs()])
"""


def test_layers_are_in_graphs_unless_the_user_says_no():
    """Also after torch.export, which leaves Dynamo's settings as if the user had made them."""
    assert output_of(_SETTINGS).stdout.splitlines()[-1] == "[0, 1, 1]"
