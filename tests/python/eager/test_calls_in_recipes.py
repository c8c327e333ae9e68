"""Calls that only the CPU's kernels had: eagerly and in lazy mode with no kernel on the CPU, and as
one compiled graph, they give what PyTorch gives on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from eager_case import place_on_cpu
from helpers import fresh_process
from kernel_case import on_device
from lazy_case import lazy_mode

from habana_frameworks.torch.dynamo import report

A = torch.ops.aten
F8 = torch.float8_e4m3fn, torch.float8_e5m2
X = torch.linspace(-3, 3, 24).reshape(4, 6)
Y = X.flip(0).cos()
I = torch.tensor([-(2**31), -9, -1, 0, 1, 5, 2**31 - 1])  # noqa: E741
COUNTS = torch.tensor([-1, 0, 1, 3, 31, 40, 2])
EDGES = torch.tensor([[-2.0, -1, -1, 0.5, 2], [-3.0, 0, 1, 1, 9]])
VALUES = torch.tensor([[-1.0, 2.5, -9], [1, float("nan"), 0]])
LABELS = torch.tensor([[1, 3, -1, 0, 2], [4, -1, 1, 1, 1], [-1, 0, 1, 2, 3], [0, 1, 2, 3, 4]])
BYTES = torch.tensor([0, 1, 2, 255, 0, 7], dtype=torch.uint8)
TRUTHS = torch.tensor([True, True, True, False, False, False])

Row = tuple[Any, ...]


def scores(rows: int = 4) -> torch.Tensor:
    return torch.linspace(-1, 1, rows * 5).reshape(rows, 5).sin()


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of what f8 inputs stand for, rounded to their type, which no CPU kernel does."""

    def rounded(*inputs: torch.Tensor) -> Any:
        given = [x.float() if x.dtype in F8 else x for x in inputs]
        results = function(*given)
        results = results if isinstance(results, tuple) else (results,)
        return tuple(r.to(inputs[0].dtype) if r.dtype == torch.float32 else r for r in results)

    return rounded


ARITHMETIC: dict[str, Row] = {
    **{
        f"shift {name} of {dtype}": (
            lambda x, y, op=op: (op(x, y), op(x, 2), op(5, y)), I.to(dtype), COUNTS.to(dtype)
        )
        for name, op in (
            ("left", torch.bitwise_left_shift), ("right", torch.bitwise_right_shift)
        )
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8)
    },
    "shift operators": (lambda x, y: (x << y, x >> y, x << 1, x >> 3), I, COUNTS.clamp(0, 40)),
    "_add_relu": (lambda x, y: (torch._add_relu(x, y), torch._add_relu(x, y, alpha=0.3)), X, Y),
    "rounding of integers": (lambda x: (x.floor(), x.ceil(), x.trunc(), x.round()), I),
    "a number's remainder": (lambda x: A.remainder.Scalar_Tensor(7, x), X),
    "fmin of integers": (lambda x, y: (torch.fmin(x, y), torch.fmax(x, y)), I, COUNTS),
    "fmax of two types": (lambda x, y: torch.fmax(x, y), X, Y.bfloat16()),
    "copysign of integers": (lambda x, y: torch.copysign(x, y), I.float(), COUNTS),
    "linspace": (
        lambda x: [
            x[0, 0] + torch.linspace(*bounds, device=x.device)
            for bounds in ((0, 1, 11), (-3, 7.7, 8), (2, -2, 5), (3, 9, 1), (0.1, 0.3, 1000))
        ],
        X,
    ),
    "linspace of integers": (
        lambda x: [
            torch.linspace(*bounds, dtype=dtype, device=x.device) + 0
            for bounds in ((0, 10, 5), (-3, 9, 6), (0.9, 7.9, 4), (10, -7, 13), (4, 8, 1))
            for dtype in (torch.int64, torch.int32, torch.int16)
        ],
        X,
    ),
    "celu and elu with scales": (lambda x: (F.celu(x, 0.7), A.elu(x, 0.4, 1.5, 2.0)), X),
    "largest truth values": (
        lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), x.amax(0)), X > 0, Y > 0.5
    ),
    "sorted truth values": (lambda x: (x.sort(stable=True), x.sort(descending=True)[0]), TRUTHS),
    "integers are finite": (lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.isposinf()), I),
    **{
        f"nan_to_num of {dtype}": (
            lambda x: (x.nan_to_num(), torch.nan_to_num(x, 1.0, 2.0), x.nan_to_num(neginf=-4)),
            torch.tensor([float("nan"), float("inf"), -float("inf"), 0.5, -2], dtype=dtype),
        )
        for dtype in (torch.float32, torch.bfloat16, torch.float16)
    },
    "logspace": (lambda x: x + torch.logspace(0, 2, 6, device=x.device), X),
    "logspace of integers": (
        lambda x: [
            torch.logspace(*bounds, dtype=torch.int64, device=x.device) + 0
            for bounds in ((0, 10, 11, 2), (0.5, 3.5, 4), (0, 12, 13), (7, 0, 20), (2, 5, 1))
        ],
        X,
    ),
    "shifts of constants": (
        lambda x: [
            op(torch.full((3,), 5, dtype=dtype, device=x.device), count)
            for op in (torch.bitwise_left_shift, torch.bitwise_right_shift)
            for dtype in (torch.int64, torch.int32, torch.int8)
            for count in (0, 2, 31, 62, 63, 64)
        ],
        X,
    ),
    "bytes as truth values": (
        lambda x, y: [
            op(x.view(torch.bool), y)
            for op in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
        ],
        BYTES, TRUTHS,
    ),
    "truth values compared": (
        lambda x, y: [op(x, y) for op in (torch.lt, torch.le, torch.gt, torch.ge)],
        torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False]),
    ),
    "many dimensions converted": (lambda x: x.reshape(2, 2, 2, 1, 3, 1).bfloat16().float(), X),
    "norm of many dimensions": (
        lambda x: F.layer_norm(x.bfloat16().reshape(1, 2, 2, 1, 1, 6), (6,)), X
    ),
}  # fmt: skip

REDUCTIONS: dict[str, Row] = {
    "extremes of truth values": (
        lambda m: (m.amax(1), m.amin(0), m.max(), m.min(), torch.aminmax(m, dim=0)),
        X > 2.5,
    ),
    "product of truth values": (lambda m: (m.prod(), m.prod(1), m.prod(dtype=torch.bool)), X > -9),
    "_aminmax": (lambda x: (A._aminmax(x), A._aminmax(x, 1, True)), X),
    "all and any of nothing": (lambda e: (e.all(), e.any(), e.all(1), e.any(0)), X[:, :0]),
    "place of the largest, with dimensions": (lambda x: x.argmax(keepdim=True), X),
    "norm of order 0": (lambda x: (x.norm(0), x.norm(0, 1)), X.trunc()),
    "bincount": (lambda i: (i.bincount(), i.bincount(minlength=9)), COUNTS.clamp(0, 5)),
    "bincount with weights": (lambda i, w: i.bincount(w), COUNTS.clamp(0, 5), X.flatten()[:7]),
    "bincount of nothing": (lambda i: i.bincount(minlength=2), COUNTS[:0]),
}

POSITIONS: dict[str, Row] = {
    "searchsorted in rows": (
        lambda e, v: (torch.searchsorted(e, v), torch.searchsorted(e, v, right=True)),
        EDGES, VALUES,
    ),
    **{
        f"searchsorted in {count} edges": (
            lambda e, v: (
                torch.searchsorted(e, v), torch.searchsorted(e, v, right=True),
                torch.bucketize(v, e[1].contiguous()), torch.searchsorted(e[0], 0.25),
            ),
            torch.linspace(-2, 2, 2 * count).mul(8).round().div(8).sort().values
            .reshape(count, 2).t().contiguous(),
            torch.tensor([[-9.0, -2, 0.25, 0.3, 2], [9.0, 1.125, -1.125, 0, float("nan")]]),
        )
        for count in (1, 64, 65, 127, 1000)
    },
    "searchsorted of a number": (lambda e: torch.searchsorted(e[0], 0.5, out_int32=True), EDGES),
    "searchsorted with a sorter": (
        lambda e, v, s: torch.searchsorted(e, v, sorter=s),
        EDGES.flip(1), VALUES, torch.arange(4, -1, -1).expand(2, 5).contiguous(),
    ),
    "bucketize": (
        lambda e, v: (torch.bucketize(v, e[0]), torch.bucketize(v, e[0], right=True),
                      torch.bucketize(0.7, e[0])),
        EDGES, VALUES,
    ),
    "isin": (lambda i, t: torch.isin(i, t), I, torch.tensor([5, 0], dtype=torch.int32)),
    "scatter of a number": (
        lambda x, i: (x.scatter(1, i, 2.0, reduce="add"),
                      x.scatter(0, i, 3.0, reduce="multiply")),
        X, torch.tensor([[0, 3, 3], [1, 1, 1]]),
    ),
    "values added by a mask": (
        lambda x, m, v: x.index_put((m,), v, accumulate=True), X, X > 1, torch.tensor(2.0)
    ),
    "rows put by a mask": (
        lambda x, m, v: (x.index_put((m,), v[:2]), x.index_put((m & ~m,), v[:0])),
        X, torch.tensor([True, False, True, False]), X.flip(0),
    ),
    "indices on the CPU": (
        lambda x: (
            x.index_put((torch.tensor([0, 2]), torch.tensor([1, 1])), x[0, :2]),
            x.clone().index_put_((torch.tensor([3]),), x[0], accumulate=True),
        ),
        X,
    ),
    "diagonal outside": (lambda x: (x.diagonal(9) + 1, x.diagonal(-7) + 1), X),
    "triangle of nothing": (lambda x: torch.tril_indices(4, 3, -9, device=x.device) + 0, X),
    "repeat_interleave": (
        lambda x, n: (x.repeat_interleave(n, 0), torch.repeat_interleave(n)),
        X, torch.tensor([2, 0, 1, 3]),
    ),
    "masked_select into": (lambda x: torch.masked_select(x, x > 0, out=x.new_empty(0)), X),
    "nothing joined": (lambda e: (torch.cat([e, e], 1) + 1, torch.cat([e[0], e[1]]) + 1), X[:, :0]),
    "embedding_renorm_": (
        lambda x, i: torch.embedding_renorm_(x.clone(), i, 1.5, 3.0), X, torch.tensor([2, 0, 2])
    ),
}  # fmt: skip

DISTANCES: dict[str, Row] = {
    f"distances by {p}": (lambda x, y, p=p: (torch.cdist(x, y[:3], p), torch.pdist(x, p)), X, Y)
    for p in (0.0, 1.0, 2.0, 3.5, float("inf"))
}

GRADIENTS: dict[str, Row] = {
    **{
        f"multi_margin_loss, {reduction}, p = {p}": (
            lambda x, t, w, p=p, reduction=reduction: _gradient(
                lambda x: F.multi_margin_loss(x, t, p, 0.7, w, reduction=reduction), x
            ),
            scores(), torch.tensor([3, 0, 4, 1]), torch.linspace(0.5, 2, 5),
        )
        for p in (1, 2)
        for reduction in ("none", "mean", "sum")
    },
    **{
        f"multilabel_margin_loss, {reduction}": (
            lambda x, t, reduction=reduction: _gradient(
                lambda x: F.multilabel_margin_loss(x, t, reduction=reduction), x
            ),
            scores(), LABELS,
        )
        for reduction in ("none", "mean", "sum")
    },
    # With another reduction PyTorch's kernel leaves its result as it finds the memory.
    "multilabel_margin_loss of nothing": (
        lambda x, t: F.multilabel_margin_loss(x, t, reduction="none"), scores()[:0], LABELS[:0]
    ),
    "multilabel_margin_loss of a row": (
        lambda x, t: _gradient(lambda x: F.multilabel_margin_loss(x[0], t[0]), x), scores(), LABELS
    ),
    "multi_margin_loss of a row": (
        lambda x: _gradient(
            lambda x: F.multi_margin_loss(x[0], torch.tensor(2, device=x.device)), x
        ),
        scores(),
    ),
    "adaptive_avg_pool3d": (
        lambda x: _gradient(lambda x: F.adaptive_avg_pool3d(x.reshape(1, 2, 3, 4), (1, 2, 3)), x), X
    ),
}  # fmt: skip


def _gradient(loss: Callable[..., torch.Tensor], x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x.clone().requires_grad_()
    value = loss(x)
    return value.detach(), *torch.autograd.grad((value * value.detach().cos()).sum(), x)


SMALL: dict[str, Row] = {
    f"{name} of {dtype}": (function, X.to(dtype), Y.to(dtype))
    for dtype in F8
    for name, function in {
        "arithmetic": lambda x, y: (x + y, x * y, x - y, x / y, -x, x.abs(), x * 0.3, x + 0.7),
        "comparisons": lambda x, y: (x < y, x == y, torch.maximum(x, y), x.clamp(-1, 1)),
        "reductions": lambda x, y: (x.amax(1), x.min(), x.sum(0), x.argmax(1), x.aminmax(dim=0)[1]),
        "choices": lambda x, y: (torch.where(x > 1, x, y), x.masked_fill(y > 0, 1)),
    }.items()
}  # fmt: skip

IMAGE = X.reshape(1, 2, 3, 4).sin()
RESIZES: dict[str, Row] = {
    f"{mode} by a factor that does not divide": (
        lambda x, mode=mode: (
            F.interpolate(x, scale_factor=1.7, mode=mode),
            F.interpolate(x, scale_factor=(0.6, 2.3), mode=mode),
        ),
        IMAGE,
    )
    for mode in ("nearest", "nearest-exact", "bilinear")
}
RESIZES["aligned corners"] = lambda x: F.upsample_bilinear(x, scale_factor=1.7), IMAGE

ROWS = {**RESIZES, **ARITHMETIC, **REDUCTIONS, **POSITIONS, **DISTANCES, **GRADIENTS}
# These have sizes that depend on elements, or take bytes of other types or indices on the CPU. A
# graph breaks at them or has eager steps.
BREAK = {
    "bincount", "bincount with weights", "repeat_interleave", "masked_select into",
    "bytes as truth values", "indices on the CPU", "bincount of nothing", "rows put by a mask",
}  # fmt: skip


def _expect(got: Any, want: Any) -> None:
    ours, theirs = torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)
    for own, other in zip(ours, theirs, strict=True):
        assert (own.dtype, own.shape, own.device.type) == (other.dtype, other.shape, "hpu")
        if other.dtype in F8:
            own, other = own.float(), other.float()
        torch.testing.assert_close(own.cpu(), other, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("way", ["eager", "lazy"])
@pytest.mark.parametrize("name", [*ROWS, *SMALL])
def test_without_the_cpu(name: str, way: str) -> None:
    function, *inputs = ROWS.get(name) or SMALL[name]
    want = (wide(function) if name in SMALL else function)(*inputs)
    given = on_device(inputs)
    with lazy_mode() if way == "lazy" else nullcontext(), place_on_cpu("none"):
        _expect(function(*given), want)


@pytest.mark.parametrize("name", [name for name in (*ROWS, *SMALL) if name not in BREAK])
def test_one_graph(name: str) -> None:
    function, *inputs = ROWS.get(name) or SMALL[name]
    want = (wide(function) if name in SMALL else function)(*inputs)
    fresh_process()
    _expect(torch.compile(function, backend="hpu_backend", dynamic=False)(*on_device(inputs)), want)
    graphs = report().graphs
    assert graphs
    for graph in graphs:
        assert graph.origin != "eager" and graph.eager_nodes == 0


@pytest.mark.parametrize("place", ["", "none"])
def test_operators_without_a_kernel_on_the_cpu(place: str) -> None:
    mask = (X > 0).to(torch.uint8)
    with place_on_cpu(place):
        assert A._resize_output_(torch.empty(0, device="hpu"), [2, 3], "hpu").shape == (2, 3)
        _expect(A._masked_scale(X.to("hpu"), mask.to("hpu"), 1.5), X * mask * 1.5)


def test_results_of_the_callers() -> None:
    x, weight = X.reshape(2, 3, 4).to("hpu"), torch.ones(3, device="hpu")
    with place_on_cpu("none"):
        out = [torch.empty(0, device="hpu") for _ in range(3)]
        A.native_batch_norm.out(
            x, weight, weight, None, None, True, 0.1, 1e-5,
            out=out[0], save_mean=out[1], save_invstd=out[2],
        )  # fmt: skip
        for own, other in zip(
            out, A.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5), strict=True
        ):
            assert torch.equal(own, other)
        grad = torch.empty(0, device="hpu")
        A.adaptive_avg_pool3d_backward.grad_input(x[:, None, :1], x[:, None], grad_input=grad)
        assert torch.equal(grad, A._adaptive_avg_pool3d_backward(x[:, None, :1], x[:, None]))


@pytest.mark.parametrize("name", ["index_put_", "randperm", "log_normal_", "normal", "rrelu"])
def test_composed_calls_are_captured(name: str) -> None:
    """Each replay of an HPU graph writes, and draws anew."""
    i, v = torch.tensor([1, 3]).to("hpu"), torch.tensor([5.0, 6.0]).to("hpu")
    x = X.flatten().to("hpu")
    call = {
        "index_put_": lambda: x.index_put_((i,), v),
        "randperm": lambda: torch.randperm(9, device="hpu"),
        "log_normal_": lambda: torch.empty_like(x).log_normal_(),
        "normal": lambda: torch.normal(x, 0.5),
        "rrelu": lambda: F.rrelu(x, 0.1, 0.4, training=True),
    }[name]
    call()
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        y = call()
    x.copy_(X.flatten())
    results = []
    for _ in range(2):
        graph.replay()
        results.append(y.clone())
    if name == "index_put_":
        want = X.flatten().clone()
        want[[1, 3]] = torch.tensor([5.0, 6.0])
        assert torch.equal(x.cpu(), want)
    else:
        assert not torch.equal(*results)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: torch.tensor([-1], device=d).bincount(), "non-negative"),
        (lambda d: torch.ones(2, dtype=torch.int64, device=d).bincount(torch.ones(3, device=d)), "same length"),  # noqa: E501
        (lambda d: torch.repeat_interleave(torch.tensor([1, -1], device=d)), "negative"),
        (lambda d: torch.repeat_interleave(torch.ones(1, 1, dtype=torch.int64, device=d)), "1D"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told(call: Callable[[str], Any], message: str) -> None:
    for device in ("cpu", "hpu"):
        with place_on_cpu("none"), pytest.raises((RuntimeError, ValueError), match=message):
            call(device)
