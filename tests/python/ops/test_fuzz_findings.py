"""Errors that the differential fuzzer found (tests/fuzz), each as small as possible, and what the
fuzzer covers."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F
from helpers import check, compiled_whole
from paths import ROOT

FUZZ = ROOT / "tests/fuzz"


@pytest.fixture
def fuzz_path(monkeypatch):
    monkeypatch.syspath_prepend(str(FUZZ))
    yield
    for name in ("coverage", "operations", "programs", "recording", "structured", "writes"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_programs_reach_every_row_of_the_op_table(fuzz_path):
    import coverage

    counts = coverage.reached(coverage.captured_targets(first_seed=0, count=250))
    assert coverage.missing(counts) == []


def test_programs_are_the_same_for_a_seed(fuzz_path):
    from programs import random_program

    for seed in range(20):
        first, second = random_program(seed), random_program(seed)
        assert first.source == second.source
        for x, y in zip(first.inputs, second.inputs, strict=True):
            assert x.stride() == y.stride()
            torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weight_is_also_what_is_added(dtype):
    """The epilogue read the packed copy in place of the weight."""
    x, weight = torch.randn(64, 1).to(dtype), torch.randn(1, 5).to(dtype)
    compiled_whole(check(lambda x, w: x @ w + w, x, weight))


def test_reduction_of_everything_beside_another_shape():
    """The graph compiler looped for ever."""
    x, y = torch.randn(1, 7, 2), torch.randn(5, 7, 5)
    compiled_whole(check(lambda x, y: torch.gt(torch.all(x > -3), y), x, y))


def test_write_through_as_strided_into_a_copy():
    """The copy had the strides of its source."""

    def function(x):
        return x.contiguous().clone().as_strided((1, 2), (1, 1)).add_(1)

    check(function, torch.randn(3, 2, 2).unbind(2)[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_instance_norm(dtype):
    """It failed in bf16, because statistics had another type than announced."""
    x, w = torch.randn(2, 5, 33).to(dtype), torch.randn(5).to(dtype)
    compiled_whole(check(lambda x, w: F.instance_norm(x, weight=w, bias=w), x, w))


@pytest.mark.parametrize(
    "function", [lambda x: F.prelu(x, x.new_full((3,), 0.25)), F.logsigmoid], ids=["prelu", "log"]
)
def test_activation_is_compiled(function):
    compiled_whole(check(function, torch.randn(2, 3, 5)))


def test_as_strided_of_a_reshaped_result():
    """The reader took the result from memory before the same recipe had written it."""

    def function(x):
        pooled = F.avg_pool1d(x, 2).as_strided((2, 2), (1, 2), 1)
        return pooled.cumsum(1), pooled, torch.sort(x, stable=True, dim=2)[1]

    compiled_whole(check(function, torch.randn(3, 1, 5)))


@pytest.mark.parametrize("first", [0, 3])
def test_as_strided_counts_from_the_start_of_an_inputs_memory(first):
    """It counted from the input's first element, which may lie anywhere in its memory."""

    def function(x):
        return x.contiguous().as_strided((2, 2), (1, 2), 1) * 2

    (graph,) = check(function, torch.randn(80)[first : first + 65], share=True).graphs
    assert "offset into an input's memory" in graph.reason
    compiled_whole(
        check(lambda x: x.as_strided((2, 2), (1, 2)) * 2, torch.randn(80)[first:], share=True)
    )


def test_two_outputs_of_one_eager_result():
    """The second output, whose strides the eager result has, was in memory that nothing wrote."""

    def function(x, y):
        z = torch.neg(x)
        part = z[::2].add_(y)
        return part.select_scatter(part.select(3, 0), 3, 0), part

    check(function, torch.arange(112, dtype=torch.uint8).reshape(1, 7, 16, 1), torch.tensor(100))


def test_as_strided_of_a_copy_of_a_strided_input():
    """It addressed the input's memory in place of the copy's."""

    def function(x):
        return x.contiguous().as_strided((2, 2), (1, 2), 1) * 2

    for x in (
        torch.randn(10)[::2],
        torch.randn(7, 3, 2).permute(2, 1, 0),
        torch.randn(1, 9)[:, ::2],
    ):
        compiled_whole(check(function, x))


def test_threshold_keeps_nan():
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([nan, 1.0, 0.5, 0.25, inf, -inf])
    compiled_whole(check(lambda x: F.threshold(x, 0.5, 3.0), x))


def test_lerp_starts_from_the_nearer_end():
    inf = float("inf")
    start, end = (
        torch.tensor([inf, 1, inf, -inf, 2, 3e38]),
        torch.tensor([1, inf, 2, 3, 5.1, -3e38]),
    )
    weight = torch.tensor([0.75, 0.25, 0.25, 1.0, 1.0, 0.5])
    compiled_whole(check(torch.lerp, start, end, weight, rtol=0, atol=0))
    for scalar in (0.25, 0.5, 1.0):
        compiled_whole(check(lambda a, b, w=scalar: torch.lerp(a, b, w), start, end, rtol=1e-6))


def test_any_number_but_zero_fills_booleans_with_true():
    def function(x):
        return torch.full_like(x, 2) / 1.25, torch.full_like(x, -0.5) * 3

    compiled_whole(check(function, torch.zeros(5, dtype=torch.bool)))


def test_logaddexp_of_equal_infinities():
    inf = float("inf")
    x, y = torch.tensor([inf, -inf, inf, 1.0, -inf]), torch.tensor([inf, -inf, -inf, 1.0, 2.0])
    compiled_whole(check(torch.logaddexp, x, y))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (y := x.log_softmax(-1), y.argmax(-1)),
        lambda x: (y := x.softmax(-1), *y.max(-1)),
        lambda x: (y := x + 1, y.argmin()),
        lambda x: (y := x / 0.7) == F.max_pool1d(y[None], 3, 1, 1)[0],
        lambda x: (y := x / 0.7).gather(1, y.argmax(-1, keepdim=True)) == y.amax(-1, keepdim=True),
    ],
    ids=["argmax", "max", "argmin", "maxima of neighbours", "gathered maxima"],
)
def test_a_selection_of_narrow_values_compares_stored_values(function, dtype):
    """A fused kernel has the unrounded value where another one has the stored one."""
    x = torch.randn(8, 33, generator=torch.Generator().manual_seed(0)).to(dtype)
    compiled = torch.compile(function, backend="hpu_backend")(x.to("hpu"))
    wanted = function(x)
    if isinstance(wanted, torch.Tensor):
        assert torch.equal(compiled.cpu(), wanted)
    else:
        values = compiled[0].cpu().float()
        torch.testing.assert_close(values, wanted[0].float(), atol=0.02, rtol=0.02)
        index = compiled[-1].cpu()
        if index.dim() == 0:
            assert values.flatten()[index] == values.min()
        else:
            assert torch.equal(values.gather(1, index[:, None])[:, 0], values.amax(1))


def put_first_row_at(x: torch.Tensor, row: int) -> torch.Tensor:
    return x.scatter(0, torch.full_like(x[:1], row, dtype=torch.int64), x[:1])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: put_first_row_at(x, 9) * (x * 3),
        lambda x: (put_first_row_at(x, 9) * (x == 0.5), x + 1),
        lambda x: (put_first_row_at(x, 9).exp().sum(-1), (x * 2).sum(-1)),
        lambda x: x.index_copy(0, torch.tensor([9, 2], device=x.device), x[:2]) * x.exp() + x,
    ],
)
def test_reader_of_a_scatter_beside_a_reader_of_its_source(function):
    """It joined the kernel that copies the source and missed what the scatter wrote."""
    compiled_whole(check(function, torch.randn(13, 13)))


def test_padding_of_booleans():
    """0.5 became false."""
    compiled_whole(check(lambda x: F.pad(x, (0, 1), value=0.5), torch.tensor([False])))


def test_write_into_an_expanded_input():
    """Other rows of the same memory kept their old values."""

    def function(x):
        return x[2].fill_(1) + 1, x * 2

    rows = torch.randn(1, 7)
    on_hpu = rows.to("hpu")
    with torch.no_grad():
        wanted = function(rows.expand(16, 7))
        got = torch.compile(function, backend="hpu_backend")(on_hpu.expand(16, 7))
    for ours, theirs in zip((*got, on_hpu), (*wanted, rows), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, p: x @ w + F.embedding(torch.arange(13, device=x.device), p),
        lambda x, w, p: x @ w + torch.arange(13, device=x.device),
        lambda x, w, p: (x @ w).tril() + p,
        lambda x, w, p: x @ w + torch.arange(13, device=x.device).unsqueeze(1) * p,
    ],
)
def test_product_beside_element_numbers(function):
    """The compile worker crashed: element numbers in a product's epilogue have no address."""
    compiled_whole(check(function, *(torch.randn(13, 13) for _ in range(3))))
