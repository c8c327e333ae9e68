"""nn.LSTM, nn.GRU and nn.RNN: recipes where they are compiled, with their gradients, one CPU call
where they run eagerly.

Guide rows: FALL-1, FALL-2 (eager segments), MODE-3 (eager mode).
"""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import fresh_process
from processes import output_of
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from habana_frameworks.torch import native
from habana_frameworks.torch.dynamo import recurrent, report

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
    """Leaves that want a gradient."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("hpu").requires_grad_()
    return None if value is None else tuple(map(on_hpu, value))


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


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", [name for name in MODELS if "dropout" not in name])
def test_gradients(name, given):
    torch.manual_seed(0)
    model = MODELS[name]()
    x = torch.randn(5, 3, 6, requires_grad=True)
    state = None
    if given:
        state = model(x)[1]
        state = tuple(map(torch.randn_like, leaves(state)))
        state = state if "LSTM" in name else state[0]
        for tensor in leaves(state):
            tensor.requires_grad_()
    expected = with_gradients(model, x, state)
    fresh_process()
    compiled = torch.compile(copy.deepcopy(model).to("hpu"), backend="hpu_backend")
    assert_same(with_gradients(compiled, on_hpu(x), on_hpu(state)), expected)
    (graph,) = report().graphs
    assert (graph.origin, graph.eager_nodes) == ("compiled", 0)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_only_the_last_state_gets_a_gradient(kind):
    torch.manual_seed(0)
    model = getattr(nn, kind)(6, 8, 2)
    x = torch.randn(5, 3, 6)

    def loss(model, x):
        return leaves(model(x)[1])[-1].square().sum()

    loss(model, x).backward()
    fresh_process()
    ours = copy.deepcopy(model).to("hpu")
    torch.compile(loss, backend="hpu_backend")(ours, x.to("hpu")).backward()
    for p, q in zip(ours.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-5, atol=1e-5)


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
    """As fake tensors: each call of PyTorch's composition is one of them."""
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


def test_gradients_of_gradients():
    """What a graph that differentiates twice makes of a layer."""
    torch.manual_seed(0)
    x, state = torch.randn(4, 2, 3), torch.randn(2, 5)
    weights = [torch.randn(15, n) for n in (3, 5)]

    def second(run, x, state, weights):
        given = [t.detach().requires_grad_() for t in (x, state, *weights)]
        (grad,) = torch.autograd.grad(run(*given).square().sum(), given[0], create_graph=True)
        return torch.autograd.grad(grad.square().sum(), given)

    def whole(x, state, *weights):
        return torch.gru(x, state.unsqueeze(0), weights, False, 1, 0.0, True, False, False)[0]

    def layer(*tensors):
        return recurrent._Layer.apply("gru", 1, False, *tensors)[0]

    expected = second(whole, x, state, weights)
    ours = second(layer, x.to("hpu"), state.to("hpu"), [w.to("hpu") for w in weights])
    for p, q in zip(ours, expected, strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=1e-4, atol=1e-4)


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


def test_gradients_of_more_steps_than_a_recipe_takes():
    torch.manual_seed(0)
    model = nn.RNN(2, 2)
    x = torch.randn(4097, 1, 2, requires_grad=True)
    expected = with_gradients(model, x, None)
    fresh_process()
    compiled = torch.compile(copy.deepcopy(model).to("hpu"), backend="hpu_backend")
    for p, q in zip(with_gradients(compiled, on_hpu(x), None), expected, strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=1e-4, atol=1e-3)
    assert report().graphs[-1].eager_nodes == 2


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


@pytest.mark.parametrize("name", ["LSTM, projected, batch first", "GRU", "RNN, relu"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_under_autocast(name, dtype):
    torch.manual_seed(0)
    model = MODELS[name]()
    x = torch.randn(5, 3, 6, requires_grad=True)
    expected = with_gradients(model, x, None)
    fresh_process()
    ours = copy.deepcopy(model).to("hpu")

    def run(x, state):
        with torch.autocast("hpu", dtype):
            return ours(x, state)

    compiled = torch.compile(run, backend="hpu_backend")
    compiled.parameters = ours.parameters
    found = with_gradients(compiled, on_hpu(x), None)
    torch.compiler.reset()
    eager = run(on_hpu(x), None)
    assert [r.dtype for r in leaves(eager)] == [r.dtype for r in found[: len(leaves(eager))]]
    for p, q in zip(found, expected, strict=True):
        bound = 0.04 * q.abs().max().item()
        torch.testing.assert_close(p.float().cpu(), q, rtol=0, atol=bound)


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


def test_gradients_of_gradients_in_one_graph():
    """The steps that the second derivative needs are recorded, not a call of the layer again."""
    torch.manual_seed(0)
    model = nn.GRU(3, 5)
    x = torch.randn(4, 2, 3)

    def penalty(model, x):
        # A state that the input gives: its way to the gradient counts once.
        state = x.mean(0, keepdim=True).repeat(1, 1, 2)[..., :5].tanh()
        y = model(x, state)[0]
        return torch.autograd.grad(y.square().sum(), x, create_graph=True)[0].square().sum()

    def second(model, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(penalty(model, x), [x, *model.parameters()])

    expected = second(model, x)
    ours = copy.deepcopy(model).to("hpu")
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        found = torch.compile(second, backend="hpu_backend")(ours, x.to("hpu"))
    for p, q in zip(found, expected, strict=True):
        torch.testing.assert_close(p.cpu(), q, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_forward_mode_differentiation(kind):
    torch.manual_seed(0)
    model = getattr(nn, kind)(3, 5)
    x, tangent = torch.randn(4, 2, 3), torch.randn(4, 2, 3)
    step = 1e-3
    with torch.no_grad():
        expected = (model(x + step * tangent)[0] - model(x - step * tangent)[0]) / (2 * step)
    ours = copy.deepcopy(model).to("hpu")
    given = (x.to("hpu"),), (tangent.to("hpu"),)
    _, found = torch.func.jvp(lambda x: ours(x)[0], *given)
    torch.testing.assert_close(found.detach().cpu(), expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("which", ["state", "weight", "gradient"])
def test_a_layer_of_other_ranks_is_refused(which, rank):
    """Such calls are no program of PyTorch's, but a server takes what it is sent."""
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
    """As PyTorch does by default: they would be traced without what hpu makes of them."""
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


def test_who_does_not_want_layers_in_graphs():
    layer = nn.LSTM(4, 4).to("hpu")
    before = len(report().graphs)
    compiled = torch.compile(layer, backend="hpu_backend")
    x = torch.randn(3, 2, 4, device="hpu")
    revert = torch._dynamo.config._make_closure_patcher(allow_rnn=False)()
    try:
        with torch.no_grad():
            compiled(x)
        assert len(report().graphs) == before
    finally:
        revert()
