"""Code as users write it. Each case once failed, was wrong, or ran eagerly without need."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers import check, compiled_whole
from torch import nn

from habana_frameworks.torch.dynamo import report


def on_hpu(module: nn.Module) -> nn.Module:
    return torch.compile(module.to("hpu"), backend="hpu_backend")


@pytest.mark.parametrize("frozen", [True, False])
def test_autocast_around_a_compiled_module(frozen):
    """Autocast's cache held tensors of Dynamo's tracing, so the graph ran eagerly."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).eval()
    model.requires_grad_(not frozen)
    x = torch.randn(8, 32)
    with torch.no_grad():
        wanted = model(x)
        compiled = on_hpu(model)
        with torch.autocast("hpu", torch.bfloat16):
            got = compiled(x.to("hpu"))
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float().cpu(), wanted, rtol=0, atol=3e-2)
    graph = report().graphs[-1]
    assert (graph.reason, graph.recipes, graph.eager_nodes) == ("", 1, 0)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize(
    "module",
    [
        lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), 2
        ),
        lambda: Attention(32, 4),
    ],
    ids=["layer", "encoder", "attention"],
)
def test_attention_without_dropout_draws_no_random_numbers(module, autocast):
    torch.manual_seed(0)
    model = module().eval()
    x = torch.randn(2, 9, 32)
    with torch.no_grad():
        wanted = model(x)
        compiled = on_hpu(model)
        with torch.autocast("hpu", torch.bfloat16, enabled=autocast):
            got = compiled(x.to("hpu"))
    torch.testing.assert_close(
        got.float().cpu(), wanted, rtol=1e-4, atol=5e-2 if autocast else 1e-5
    )
    graph = report().graphs[-1]
    assert (graph.reason, graph.eager_nodes) == ("", 0)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


def test_dropout_in_attention():
    q = torch.randn(1, 2, 5, 8).to("hpu")

    def attention(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    torch._dynamo.reset()
    with torch.no_grad():
        torch.hpu.manual_seed(4)
        ours = torch.compile(attention, backend="hpu_backend")(q)
        torch.hpu.manual_seed(4)
        torch.testing.assert_close(ours, attention(q))
    assert (report().graphs[-1].origin, report().graphs[-1].eager_nodes) == ("compiled", 0)


def test_gradient_inside_a_graph():
    """A failed capture left the transform behind, and the program ended. AOTAutograd can take the
    graph."""
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    transformed = check(lambda x: torch.func.grad(lambda y: (y * y).sum())(x), x)
    (graph,) = transformed.graphs
    assert (graph.origin, graph.eager_nodes) == ("compiled", 0)
    assert graph.parted_because == "a function transform (torch.func) cannot be captured"
    check(lambda x: x + 1, torch.ones(2))


def test_forward_mode_inside_a_graph():
    """A failed attempt to capture it left forward-mode differentiation and its transforms on, and
    Dynamo found that its own guards do not hold."""
    torch.manual_seed(0)
    layer, x = nn.Linear(4, 3), torch.randn(4)
    theirs = torch.func.hessian(lambda y: layer(y).tanh().sum())(x)
    torch._dynamo.reset()
    layer.to("hpu")
    hessian = torch.compile(
        torch.func.hessian(lambda y: layer(y).tanh().sum()), backend="hpu_backend"
    )
    torch.testing.assert_close(hessian(x.to("hpu")).cpu(), theirs)
    assert report().graphs[-1].origin == "compiled"
    check(lambda x: x + 1, torch.ones(2))


def test_a_transform_while_writes_are_not_captured():
    """The reason claimed that the graph writes to tensors, but it does not."""
    graph = check(
        lambda x: torch.vmap(lambda row: row.sum() * row)(x),
        torch.ones(3, 2),
        keep_input_mutations=False,
    ).graphs[-1]
    assert (graph.parted_because or graph.reason) == (
        "a function transform (torch.func) is not captured while option keep_input_mutations is off"
    )


def _linear_recurrence(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """h[t] = a[t] h[t - 1] + b[t], as models of state spaces write it."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return associative_scan(combine, (a, b), dim=1, combine_mode="generic")[1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.vmap(lambda row: row.sum() * row)(x),
        lambda x: torch.vmap(torch.vmap(torch.sin))(x),
        lambda x: torch.vmap(lambda row, y: row + y, in_dims=(1, None), out_dims=1)(x, x[:, 0]),
        lambda x: _linear_recurrence(x * 0.5, x),
    ],
    ids=["vmap", "nested", "dims", "associative scan"],
)
def test_vmap_is_compiled(function):
    x = torch.randn(3, 13, generator=torch.Generator().manual_seed(0))
    transformed = check(function, x)
    assert (transformed.graphs[-1].origin, transformed.graphs[-1].eager_nodes) == ("compiled", 0)


def test_linear_recurrence_has_the_values_of_its_loop():
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.rand(2, 37, generator=generator) for _ in range(2))
    wanted = [b[:, 0]]
    for t in range(1, 37):
        wanted.append(a[:, t] * wanted[-1] + b[:, t])
    torch._dynamo.reset()
    with torch.no_grad():
        got = torch.compile(_linear_recurrence, backend="hpu_backend")(a.to("hpu"), b.to("hpu"))
    torch.testing.assert_close(got.cpu(), torch.stack(wanted, 1))


def test_unused_results_of_an_eager_op_may_be_anything():
    """EmbeddingBag's second result has no elements on a CPU and some in the meta function."""
    torch.manual_seed(0)
    for mode in ("sum", "mean", "max"):
        model = nn.EmbeddingBag(50, 8, mode=mode)
        indices = torch.randint(0, 50, (3, 5))
        with torch.no_grad():
            wanted = model(indices)
            got = on_hpu(model)(indices.to("hpu"))
        torch.testing.assert_close(got.cpu(), wanted)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("strides", [(2, 1), (1, 2)])
def test_strided_view_of_an_eager_result(strides, offset):
    """The offset was lost: the recipe began at the result's first element."""

    def function(x):
        return torch.lgamma(x + 3).as_strided((2, 2), strides, offset) + 1

    check(function, torch.arange(6.0))


def test_functions_that_transformers_puts_into_torch(monkeypatch):
    """transformers.is_torch_hpu_available replaces torch.gather; its content is part of the key."""
    original = torch.gather

    def patched(input, dim, index):
        if input.dtype == torch.int64:
            return original(input.to(torch.int32), dim, index).to(torch.int64)
        return original(input, dim, index)

    monkeypatch.setattr(torch, "gather", patched)
    x, index = torch.randn(3, 4), torch.zeros(3, 2, dtype=torch.int64)
    check(lambda x, i: torch.gather(x, 1, i) + 1, x, index)
    assert report().graphs[-1].cacheable


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool1d(x, 2),
        lambda x: torch.cat(x.unsafe_split(2, 1)[::-1], 1),
        lambda x: x.clone().zero_() + 1,
        lambda x: x.index_fill(2, torch.tensor([0, -1], device=x.device), 3.0),
        lambda x: x.index_fill(0, torch.tensor([1], device=x.device), x[0, 0, 0]),
    ],
    ids=["max_pool1d", "unsafe_split", "zero_", "index_fill", "index_fill of one"],
)
def test_compiled_without_eager_segments(function):
    compiled_whole(check(function, torch.randn(2, 4, 6)))


def test_assignment_to_a_part():
    def function(x):
        y = x * 2
        y[:, 1] = 3
        y[0] = x[1]
        return y

    compiled_whole(check(function, torch.randn(4, 3)))


def test_lstm_cell():
    torch.manual_seed(0)
    model = nn.LSTMCell(8, 16).eval()
    x = torch.randn(3, 8)
    with torch.no_grad():
        wanted = model(x)
        got = on_hpu(model)(x.to("hpu"))
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)
    assert report().graphs[-1].eager_nodes == 0


@pytest.mark.parametrize("which", ["input", "weight"])
def test_convolution_keeps_channels_last(which):
    """When it was traced as row-major, it refused views that eager code makes."""

    def function(x, w):
        y = F.conv2d(x, w)
        return y, y.permute(0, 2, 3, 1).view(-1, y.shape[1])

    x, w = torch.randn(2, 16, 8, 8), torch.randn(24, 16, 3, 3)
    if which == "input":
        x = x.to(memory_format=torch.channels_last)
    else:
        w = w.to(memory_format=torch.channels_last)
    compiled_whole(check(function, x, w, rtol=1e-4, atol=1e-4))


def test_changing_float_argument_is_an_input():
    compiled = torch.compile(lambda x, a: x * a + 1, backend="hpu_backend")
    x = torch.ones(3, device="hpu")
    with torch.no_grad():
        for value in (1.5, 2.5, 3.5):
            torch.testing.assert_close(compiled(x, value).cpu(), torch.full((3,), value + 1))
        assert report().eager_segments == 0
        for value in (1.5, 2.5, 3.5):
            scale = torch.tensor(value, device="hpu")
            torch.testing.assert_close(compiled(x, scale).cpu(), torch.full((3,), value + 1))
        assert report().graphs[-1].reason == ""
