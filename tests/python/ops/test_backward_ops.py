"""The ATen calls of gradients on the device: recipes only, results as on the CPU.

Guide rows: FALL-1, FALL-2 (eager segments).
"""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from aten_case import Case, T
from helpers import check, compiled_whole, fresh_process
from samples.backward import CASES
from training_case import by_sizes

from habana_frameworks.torch.dynamo import report

aten = torch.ops.aten


def sample(tensor: T) -> torch.Tensor:
    if tensor.dtype == torch.bool:
        return torch.rand(tensor.sizes) < 0.5
    if not tensor.dtype.is_floating_point:
        return torch.randint(0, 3, tensor.sizes, dtype=tensor.dtype)
    return torch.rand(tensor.sizes).mul(0.9).add(0.05).to(tensor.dtype)


def call_of(case: Case):
    """The case as a function of its tensors with dimensions, and these tensors."""
    torch.manual_seed(0)
    given = [sample(tensor) for tensor in case.tensors]

    def function(*tensors):
        at = iter(tensors)

        def real(arg):
            if isinstance(arg, T):
                return next(at)
            return [real(item) for item in arg] if isinstance(arg, list) else arg

        args = [real(arg) for arg in case.args]
        result = case.op(*args, **{name: real(arg) for name, arg in case.kwargs.items()})
        return result if isinstance(result, torch.Tensor) else list(result)

    return function, given


# For frozen statistics the CPU's kernel gives results of other sizes than fake tensors do.
ON_DEVICE = [case for case in CASES if "training = false" not in case.text_args]


@pytest.mark.parametrize("case", ON_DEVICE, ids=lambda c: f"{c.target}({', '.join(c.text_args)})")
def test_call(case: Case) -> None:
    function, given = call_of(case)
    placed = [t.reshape(1) if t.dim() == 0 else t for t in given]

    def with_scalars(*tensors):
        return function(*(t.reshape(g.shape) for t, g in zip(tensors, given, strict=True)))

    compiled_whole(check(with_scalars, *placed, rtol=2e-5, atol=2e-5, calls=1))


def test_log_sigmoid():
    def function(grad, x):
        y, buffer = aten.log_sigmoid_forward(x)
        return y, aten.log_sigmoid_backward(grad, x, buffer)

    compiled_whole(check(function, by_sizes(3, 9), by_sizes(9)))


@pytest.mark.parametrize("mask", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1)])
def test_gradients_left_out(mask):
    def function(grad, x, weight, row, *vectors):
        wanted = [bool(item) for item in mask]
        ones, zeros = [1, 1], [0, 0]
        convolution = aten.convolution_backward(
            grad, x, weight, [4], ones, ones, ones, False, zeros, 1, wanted
        )
        mean = row[:, :1].contiguous()
        norm = aten.native_layer_norm_backward(row, row * 2, [9], mean, mean, *vectors, wanted)
        # A gradient that is left out may be None or not.
        return [x for x, kept in zip([*convolution, *norm], wanted * 2, strict=True) if kept]

    grad, x, weight = by_sizes(2, 4, 6, 6), by_sizes(2, 3, 6, 6), by_sizes(4, 3, 3, 3)
    given = [grad, x, weight, by_sizes(3, 9), by_sizes(9), by_sizes(9)]
    compiled_whole(check(function, *given, rtol=1e-4, atol=1e-4))


def test_frozen_batch_norm():
    def function(grad, x, c):
        mean, variance = c, c * c + 1
        y, mean_out, scale = aten._native_batch_norm_legit_no_training(
            x, c, c, mean, variance, 0.1, 1e-5
        )
        backward = aten.native_batch_norm_backward(
            grad, x, c, mean, variance, mean_out, scale, False, 1e-5, [True] * 3
        )
        return y, *backward

    compiled_whole(check(function, by_sizes(2, 3, 4, 5), by_sizes(2, 3, 4, 5) * 2, by_sizes(3)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_statistics_in_evaluation(dtype):
    """PyTorch's shape function says that the running statistics become f32."""

    def function(x, mean, variance):
        return torch._native_batch_norm_legit(x, None, None, mean, variance, False, 0.1, 1e-3)[0]

    x = by_sizes(2, 3, 4, 5).to(dtype)
    mean, variance = by_sizes(3).to(dtype), (by_sizes(3).square() + 1).to(dtype)
    compiled_whole(check(function, x, mean, variance))


@pytest.mark.parametrize(
    ("size", "window"),
    [
        ((2, 3, 8, 8), ([2, 2], [2, 2], [0, 0], [1, 1], False)),
        ((2, 3, 7, 9), ([3, 3], [2, 2], [1, 1], [1, 1], False)),
        ((2, 3, 9, 9), ([3, 2], [2, 1], [1, 0], [2, 3], True)),
        ((2, 16, 9, 8), ([3, 3], [2, 2], [1, 1], [1, 1], False)),
        ((16, 9, 8), ([5, 4], [1, 1], [2, 2], [1, 1], False)),
    ],
)
def test_max_pool(size, window):
    def function(x):
        y, index = aten.max_pool2d_with_indices(x, *window)
        return y, index, aten.max_pool2d_with_indices_backward(y * 2, x, *window, index)

    compiled_whole(check(function, by_sizes(*size)))


def test_max_pool_of_minus_infinity():
    """The padding has the same value, and is never the position of a maximum."""
    x = torch.full((1, 1, 6, 6), -torch.inf)
    x[0, 0, 0, 1] = 1

    def function(x):
        y, index = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
        return index, aten.max_pool2d_with_indices_backward(
            torch.ones_like(y), x, [3, 3], [2, 2], [1, 1], [1, 1], False, index
        )

    compiled_whole(check(function, x))


def test_embedding_of_many_rows_is_the_same_on_any_number_of_threads():
    index = torch.arange(700).mul(37).remainder(11)

    def function(grad, index):
        return aten.embedding_dense_backward(grad, index, 11, -1, False)

    compiled = torch.compile(function, backend="hpu_backend")
    grad = by_sizes(700, 130).to("hpu")
    results = []
    try:
        for threads in (1, 2, 3, 7):
            torch.hpu.set_num_threads(threads)
            results.append(compiled(grad, index.to("hpu")).cpu())
    finally:
        torch.hpu.set_num_threads(len(os.sched_getaffinity(0)))
    for result in results[1:]:
        assert torch.equal(result, results[0])
    torch.testing.assert_close(results[0], function(grad.cpu(), index), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_embedding_bag(mode, padding, weighted):
    if weighted and mode != 0:
        pytest.skip("PyTorch weighs sums only")

    def function(table, grad, index, offsets, *each):
        weights = each[0] if each else None
        more = (mode, False, weights)
        bags, *state = aten._embedding_bag(table, index, offsets, False, *more, False, padding)
        backward = aten._embedding_bag_backward(
            grad, index, offsets, *state, table.shape[0], False, *more, padding
        )
        return bags, backward

    index = torch.tensor([0, 2, 4, 4, 1, 2, 2, 0])
    each = [by_sizes(8)] if weighted else []
    # The third bag has nothing but padding 2, the fourth has no rows.
    table, grad = by_sizes(5, 6).clone(), by_sizes(4, 6).clone()
    if padding == 2:  # padding does not count, whatever it is
        table[2] = torch.nan
        grad[2] = torch.inf
    compiled_whole(check(function, table, grad, index, torch.tensor([0, 5, 7, 7]), *each))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_bags_with_a_last_offset(mode, by_frequency):
    if by_frequency and mode == "max":
        pytest.skip("PyTorch scales no maxima")
    index = torch.tensor([0, 2, 4, 4, 1, 2, 2, 0])
    offsets = torch.tensor([0, 2, 5, 5, 8])

    def function(table, index, offsets):
        return F.embedding_bag(
            index, table, offsets, mode=mode, include_last_offset=True,
            scale_grad_by_freq=by_frequency,
        )  # fmt: skip

    table, grad = by_sizes(5, 6), by_sizes(4, 6)
    theirs, ours = table.clone().requires_grad_(), table.to("hpu").requires_grad_()
    expected = function(theirs, index, offsets)
    expected.backward(grad)
    fresh_process()
    compiled = torch.compile(function, backend="hpu_backend")
    result = compiled(ours, index.to("hpu"), offsets.to("hpu"))
    result.backward(grad.to("hpu"))
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-5, atol=1e-5)
    if not by_frequency:
        compiled_whole(report())


@pytest.mark.parametrize("size", [(6,), (1, 6), (9, 1), ()])
def test_rows_added_at_an_index_beside_a_broadcast_term(size):
    index = torch.tensor([0, 8, 3, 3, 5])

    def function(rows, index, bias, y):
        return (torch.zeros(9, 6, device=rows.device).index_add(0, index, rows) + bias) * y

    bias = torch.randn(size) if size else 0.5
    compiled_whole(check(function, by_sizes(5, 6), index, bias, by_sizes(9, 6)))


OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    "AdamW": (torch.optim.AdamW, {"capturable": True}),
    "Adam": (torch.optim.Adam, {"capturable": True, "amsgrad": True}),
    "RMSprop": (torch.optim.RMSprop, {"capturable": True, "momentum": 0.5}),
    "Adagrad": (torch.optim.Adagrad, {}),
}


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, foreach):
    make, options = OPTIMIZERS[name]
    on_cpu = [torch.nn.Parameter(by_sizes(4, 5 + n)) for n in range(2)]
    on_hpu = [torch.nn.Parameter(p.detach().to("hpu")) for p in on_cpu]
    plain = {k: v for k, v in options.items() if k != "capturable"}
    theirs = make(on_cpu, lr=0.1, foreach=foreach, **plain)
    ours = make(on_hpu, lr=0.1, foreach=foreach, **options)
    fresh_process()
    step = torch.compile(lambda: ours.step(), backend="hpu_backend")
    for _ in range(3):
        for cpu, hpu in zip(on_cpu, on_hpu, strict=True):
            cpu.grad = by_sizes(*cpu.shape)
            hpu.grad = cpu.grad.to("hpu")
        theirs.step()
        step()
    compiled_whole(report())
    assert all(graph.origin != "eager" for graph in report().graphs)
    for cpu, hpu in zip(on_cpu, on_hpu, strict=True):
        torch.testing.assert_close(hpu.detach().cpu(), cpu.detach(), rtol=1e-5, atol=1e-5)


def test_rms_norm():
    # The CPU has no kernel for the gradient: autograd's is the reference.
    def function(grad, x, weight):
        y, scale = aten._fused_rms_norm(x, [9], weight, 1e-5)
        return y, *aten._fused_rms_norm_backward(grad, x, [9], scale, weight, [True, True])

    grad, x, weight = by_sizes(2, 3, 9), by_sizes(2, 3, 9) * 2, by_sizes(9)
    fresh_process()
    with torch.no_grad():
        compiled = torch.compile(function, backend="hpu_backend")
        got = compiled(grad.to("hpu"), x.to("hpu"), weight.to("hpu"))
    compiled_whole(report())
    x.requires_grad_()
    weight.requires_grad_()
    y = torch.nn.functional.rms_norm(x, [9], weight, 1e-5)
    wanted = [y.detach(), *torch.autograd.grad(y, [x, weight], grad)]
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("mode", "weighted"), [("sum", False), ("sum", True), ("mean", False), ("max", False)]
)
@pytest.mark.parametrize("padding", [None, 3])
def test_bags_of_equal_size(mode, weighted, padding):
    """Indices with two dimensions: the bags are known when the graph is compiled."""
    random = torch.Generator().manual_seed(0)
    table = torch.randn(20, 12, generator=random)
    index = torch.randint(0, 20, (7, 5), generator=random)
    weights = torch.rand(7, 5, generator=random) if weighted else None
    tangent = torch.randn(7, 12, generator=random)

    def bags(table, index, weights):
        return torch.nn.functional.embedding_bag(
            index, table, mode=mode, per_sample_weights=weights, padding_idx=padding
        )

    def with_gradient(function, device):
        leaf = table.clone().to(device).requires_grad_()
        given = None if weights is None else weights.to(device)
        result = function(leaf, index.to(device), given)
        result.backward(tangent.to(device))
        return result.detach().cpu(), leaf.grad.cpu()

    compiled = torch.compile(bags, backend="hpu_backend")
    torch.testing.assert_close(with_gradient(compiled, "hpu"), with_gradient(bags, "cpu"))
