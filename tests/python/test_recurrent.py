"""nn.LSTM, nn.GRU and nn.RNN: recipes where they are compiled, one CPU call where they run eagerly.

Guide rows: FALL-1, FALL-2 (eager segments), MODE-3 (eager mode).
"""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import fresh_process
from processes import output_of
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo import report

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


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in leaves(item)]


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
    """What is set in torch._dynamo.config holds in the thread that sets it."""
    assert output_of(IN_A_THREAD).stdout.split() == ["1", "0"]


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
def test_eager_is_one_cpu_call_and_has_gradients(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    ours = copy.deepcopy(model).to("hpu")
    x = torch.randn(5, 3, 6)
    model(x)[0].sum().backward()
    module = native.torch_module()
    with torch.no_grad():
        module.reset_fallback_counts()
        assert_same(ours(x.to("hpu")), model(x))
        counts = module.fallback_counts()
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
    """histc of integers: what routers of mixtures of experts count with on accelerators."""
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


def test_dropout_between_layers_draws_as_eager_does():
    torch.manual_seed(0)
    model = nn.LSTM(6, 8, 2, dropout=0.5).to("hpu")
    x = torch.randn(5, 3, 6, device="hpu")
    for grad in (True, False):
        fresh_process()
        compiled = torch.compile(model, backend="hpu_backend")
        with torch.set_grad_enabled(grad):
            torch.manual_seed(3)
            first, other = compiled(x)[0], compiled(x)[0]
            torch.manual_seed(3)
            torch.testing.assert_close(first, model(x)[0], rtol=1e-5, atol=1e-6)
        assert not torch.equal(first, other)
        (graph,) = report().graphs
        assert graph.eager_nodes == (0 if grad else 1)
