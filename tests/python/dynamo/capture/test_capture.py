"""A recorded graph that is replayed equals eager in results, strides, written inputs and shared
memory.

Runs on CPU tensors with a graph builder in Python: neither the device nor the server is involved.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from capturing import check_capture
from function_cases import PURE, WRITES, A, B, add_in_place
from torch import nn


def graph_of(backend):
    (recording,) = backend.recordings
    assert not recording.refused, recording.refused
    return recording.graph


@pytest.mark.parametrize("case", PURE)
def test_pure_function(case):
    function, inputs = PURE[case]
    backend = check_capture(function, *inputs)
    assert not any(recording.refused for recording in backend.recordings)
    assert not any(recording.functional for recording in backend.recordings)


@pytest.mark.parametrize("case", WRITES)
def test_graph_that_writes(case):
    function, inputs = WRITES[case]
    backend = check_capture(function, *inputs)
    for recording in backend.recordings:
        assert not recording.refused, recording.refused
        # Only functional ops, and copies onto inputs at the end.
        names = recording.graph.targets()
        writes = [n for n in names if n.split(".")[1].endswith("_")]
        assert set(writes) <= {"aten.copy_.default"}


def test_written_inputs_that_share_memory_are_refused():
    base = torch.randn(4, 6)

    def function(x):
        y = x[1:]
        x.add_(1)
        return x[0], y

    backend = check_capture(function, base)
    assert "returns a view of an input that it writes to" in backend.recordings[0].refused


@pytest.mark.parametrize(
    ("function", "target"),
    [
        (lambda x: x + torch.rand(4, 6), "aten.rand.default"),
        (lambda x: F.dropout(x, 0.5, True), "aten.native_dropout.default"),
    ],
)
def test_draws_are_calls_that_say_so(function, target):
    torch._dynamo.reset()
    from capturing import CapturingBackend

    backend = CapturingBackend()
    with torch.no_grad():
        torch.compile(function, backend=backend)(A)
    nodes = backend.recordings[0].graph.nodes
    assert [n.target for n in nodes if n.draws_random] == [target]


def test_composite_functions_stay_whole():
    def block(x, w):
        y = F.layer_norm(x, (6,))
        y = F.scaled_dot_product_attention(y[None], y[None], y[None])[0]
        return F.linear(y, w) @ w

    targets = graph_of(check_capture(block, A, torch.randn(3, 6))).targets()
    assert "aten.layer_norm.default" in targets
    assert "aten.scaled_dot_product_attention.default" in targets
    assert "aten.linear.default" in targets
    assert "aten.matmul.default" in targets
    assert not any("softmax" in target for target in targets)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(5, 2, 3, 2, 4).permute(2, 1, 3, 0, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).permute(2, 0, 1, 3).reshape(5, 2, 8)
        return x + F.gelu(self.out(y))


def test_equal_layers_are_traced_once():
    layers = nn.ModuleList(Block() for _ in range(6)).eval()

    def run(count):
        def function(x):
            for layer in layers[:count]:
                x = layer(x)
            return x

        return check_capture(function, torch.randn(5, 2, 8)).recordings[0]

    one, six = run(1), run(6)
    assert one.refused == six.refused == ""
    assert len(six.graph.nodes) == 6 * len(one.graph.nodes)
    assert six.snippets == one.snippets


def test_autocast_is_traced_below_its_casts():
    def function(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ y

    graph = graph_of(check_capture(function, A, B))
    assert graph.targets().count("aten._to_copy.default") == 2
    assert not torch.is_autocast_enabled("cpu")


def test_ambient_autocast():
    def function(x, y):
        return x @ y + 1

    torch._dynamo.reset()
    from capturing import CapturingBackend

    backend = CapturingBackend()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        got = torch.compile(function, backend=backend)(A, B)
        want = function(A, B)
    assert got.dtype == want.dtype == torch.bfloat16
    assert torch.equal(got, want)


def test_dynamic_shapes_capture_each_shape():
    torch._dynamo.reset()
    from capturing import CapturingBackend

    backend = CapturingBackend()

    def function(x):
        return x.view(x.shape[0] * 2, -1).sum(1) * x.shape[0]

    compiled = torch.compile(function, backend=backend, dynamic=True)
    with torch.no_grad():
        for rows in (4, 6, 4, 10):
            x = torch.randn(rows, 6)
            assert torch.equal(compiled(x), function(x))
    assert len(backend.recordings) == 3


def test_inference_mode():
    torch._dynamo.reset()
    from capturing import CapturingBackend

    backend = CapturingBackend()
    with torch.inference_mode():
        x = A.clone()
        got = torch.compile(add_in_place, backend=backend)(x)
        assert torch.equal(got, add_in_place(A.clone()))
    assert backend.recordings[0].refused == ""


def test_sources_name_the_users_line():
    graph = graph_of(check_capture(lambda x: x.exp(), A))
    assert graph.nodes[0].source.startswith("test_capture.py:")


def test_offset_input():
    x = torch.randn(40)[3:27].view(4, 6)
    from capturing import CapturingBackend

    torch._dynamo.reset()
    backend = CapturingBackend()
    with torch.no_grad():
        got = torch.compile(lambda x: x[1:] + 1, backend=backend)(x)
    assert torch.equal(got, x[1:] + 1)
    graph = backend.recordings[0].graph
    # On the wire offsets count from the input's first element.
    assert [node.results[0][3] for node in graph.nodes] == [6, 0]
