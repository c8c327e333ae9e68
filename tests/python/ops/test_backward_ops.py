"""The ATen calls of gradients on the device: recipes only, results as on the CPU.

Guide rows: FALL-1, FALL-2 (eager segments).
"""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from aten_case import Case, T
from backward_samples import CASES
from helpers import check, compiled_whole, fresh_process

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


def heads(*sizes: int) -> torch.Tensor:
    torch.manual_seed(sum(sizes))
    return torch.randn(sizes)


MASKS = {
    "none": None,
    "added": heads(6, 6),
    "broadcast": heads(2, 1, 6, 6),
    "hidden row": torch.tensor([[float("-inf")] * 6] + [[0.0] * 6] * 5),
}


@pytest.mark.parametrize(("mask", "causal"), [*((mask, False) for mask in MASKS), ("none", True)])
def test_attention(mask, causal):
    tensors = [heads(2, 3, 6, 8), heads(2, 3, 6, 9), heads(2, 3, 6, 10)]
    given = [t[..., :8].contiguous() for t in tensors]
    hidden = [] if MASKS[mask] is None else [MASKS[mask]]

    def function(q, k, v, *hidden):
        added = hidden[0] if hidden else None
        forward = aten._scaled_dot_product_flash_attention_for_cpu
        out, lse = forward(q, k, v, 0.0, causal, attn_mask=added)
        backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return out, *backward(v * 2, q, k, v, out, lse, 0.0, causal, attn_mask=added)

    compiled_whole(check(function, *given, *hidden))


@pytest.mark.parametrize("shared", [1, 2])
def test_attention_whose_heads_share_keys(shared):
    q, k, v = heads(2, 4, 6, 8), heads(2, shared, 6, 8) + 1, heads(2, shared, 6, 8) - 1

    def function(q, k, v):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        y = torch.nn.functional.scaled_dot_product_attention(
            *leaves, is_causal=True, enable_gqa=True
        )
        return y, *torch.autograd.grad(y, leaves, q * 2)

    on_device = [x.to("hpu") for x in (q, k, v)]
    fresh_process()
    leaves = [x.requires_grad_() for x in on_device]
    y = torch.compile(
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        ),
        backend="hpu_backend",
    )(*leaves)
    ours = [y, *torch.autograd.grad(y, leaves, q.to("hpu") * 2)]
    for mine, other in zip(ours, function(q, k, v), strict=True):
        torch.testing.assert_close(mine.detach().cpu(), other, rtol=1e-4, atol=1e-5)
    assert report().eager_segments == 0


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_step_of_attention_keeps_no_scores(dtype, dropout):
    """For 1,024 rows, forward and backward take less memory than one matrix of scores."""
    length, features = 1024, 16
    given = [heads(1, 4, length, features + i)[..., :features].to(dtype) for i in range(4)]

    def step(q, k, v, gradient, attention):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(attention(*leaves), leaves, gradient)

    def attention(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=dropout
        )

    on_device = [x.contiguous().to("hpu") for x in given]
    compiled = torch.compile(attention, backend="hpu_backend")
    step(*on_device, compiled)
    torch.hpu.synchronize()
    torch.hpu.reset_peak_memory_stats()
    before = torch.hpu.memory_allocated()
    ours = step(*on_device, compiled)
    torch.hpu.synchronize()
    scores = 4 * length * length * dtype.itemsize
    assert torch.hpu.max_memory_allocated() - before < scores
    if dropout:
        return  # test_random.py compares the numbers
    wanted = step(*(x.double() for x in given), attention)
    tolerance = 1e-4 if dtype == torch.float32 else 0.05
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=tolerance, atol=tolerance)


def test_log_sigmoid():
    def function(grad, x):
        y, buffer = aten.log_sigmoid_forward(x)
        return y, aten.log_sigmoid_backward(grad, x, buffer)

    compiled_whole(check(function, heads(3, 9), heads(9)))


def hidden_rows() -> torch.Tensor:
    """A mask under which the first query has no keys."""
    shown = torch.ones(1, 1, 8, 8, dtype=torch.bool)
    shown[..., 0, :] = False
    shown[..., 3, 4:] = False
    return shown


def spelt_out(q, k, v, shown):
    scores = q.float() @ k.float().transpose(-1, -2) * 0.25
    scores = scores.masked_fill(~shown, torch.finfo(scores.dtype).min)
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_query_whose_keys_are_all_hidden_gives_the_mean_of_values(dtype):
    given = [heads(1, 2, 8, size).to(dtype) for size in (16, 16, 12)]
    compiled_whole(check(spelt_out, *given, hidden_rows()))


def test_no_gradient_of_scores_reaches_what_is_hidden():
    given, grad = [heads(1, 2, 8, size) for size in (16, 17, 18)], heads(1, 2, 8, 18)
    given[1] = given[1][..., :16].contiguous()
    theirs = [x.clone().requires_grad_() for x in given]
    ours = [x.to("hpu").requires_grad_() for x in given]
    spelt_out(*theirs, hidden_rows()).backward(grad)
    fresh_process()
    compiled = torch.compile(spelt_out, backend="hpu_backend")
    compiled(*ours, hidden_rows().to("hpu")).backward(grad.to("hpu"))
    assert theirs[0].grad[..., 0, :].abs().max() == 0
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own.grad.cpu(), other.grad, rtol=1e-5, atol=1e-5)


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

    grad, x, weight = heads(2, 4, 6, 6), heads(2, 3, 6, 6), heads(4, 3, 3, 3)
    compiled_whole(
        check(function, grad, x, weight, heads(3, 9), heads(9), heads(9), rtol=1e-4, atol=1e-4)
    )


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

    compiled_whole(check(function, heads(2, 3, 4, 5), heads(2, 3, 4, 5) * 2, heads(3)))


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

    compiled_whole(check(function, heads(*size)))


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
    grad = heads(700, 130).to("hpu")
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
    each = [heads(8)] if weighted else []
    # The third bag has nothing but padding 2, the fourth has no rows.
    inputs = [heads(5, 6), heads(4, 6), index, torch.tensor([0, 5, 7, 7])]
    compiled_whole(check(function, *inputs, *each))


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

    table, grad = heads(5, 6), heads(4, 6)
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
    compiled_whole(check(function, heads(5, 6), index, bias, heads(9, 6)))


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
    on_cpu = [torch.nn.Parameter(heads(4, 5 + n)) for n in range(2)]
    on_hpu = [torch.nn.Parameter(p.detach().to("hpu")) for p in on_cpu]
    plain = {k: v for k, v in options.items() if k != "capturable"}
    theirs = make(on_cpu, lr=0.1, foreach=foreach, **plain)
    ours = make(on_hpu, lr=0.1, foreach=foreach, **options)
    fresh_process()
    step = torch.compile(lambda: ours.step(), backend="hpu_backend")
    for _ in range(3):
        for cpu, hpu in zip(on_cpu, on_hpu, strict=True):
            cpu.grad = heads(*cpu.shape)
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

    grad, x, weight = heads(2, 3, 9), heads(2, 3, 9) * 2, heads(9)
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


@pytest.mark.parametrize("keys", [5, 37])
def test_attention_of_very_negative_scores(keys):
    """The rows after the last key, with which blocks are filled up, have no effect."""
    torch.manual_seed(0)
    shapes = [(1, 2, 40, 64), (1, 2, keys, 64), (1, 2, keys, 64), (1, 2, 40, 64)]
    q, k, v, gradient = [torch.randn(shape).bfloat16() for shape in shapes]
    given = [q * 0.1 + 8, k * 0.1 - 8, v * 8]
    attention = torch.nn.functional.scaled_dot_product_attention

    def step(attention, device, dtype):
        leaves = [t.to(device, dtype).requires_grad_() for t in given]
        y = attention(*leaves)
        return torch.autograd.grad(y, leaves, (gradient * 8).to(device, dtype))

    ours = step(torch.compile(attention, backend="hpu_backend"), "hpu", torch.bfloat16)
    _, _, expected = step(attention, "cpu", torch.float32)
    torch.testing.assert_close(ours[2].cpu().float(), expected, rtol=0.03, atol=0.5)
    # The slopes add up to 0, so only the rounding of these two sums remains.
    assert all(torch.isfinite(grad.cpu()).all() for grad in ours)


@pytest.mark.parametrize("keys", [5, 6, 37])
def test_attention_of_values_that_lie_apart(keys):
    """Staged values are filled up to whole groups of keys, whatever was in memory before."""
    torch.manual_seed(0)
    q, k = torch.randn(1, 4, 64, 64).bfloat16(), torch.randn(1, 4, keys, 64).bfloat16()
    x = torch.randn(1, 4, keys, 128).bfloat16()

    def attention(q, k, x):
        return torch.nn.functional.scaled_dot_product_attention(q, k, x[..., ::2])

    compiled = torch.compile(attention, backend="hpu_backend", dynamic=False)
    nothing = [torch.full_like(t, torch.nan, device="hpu") for t in (q, k, x)]
    compiled(*nothing)
    ours = compiled(*(t.to("hpu") for t in (q, k, x)))
    expected = attention(q.float(), k.float(), x.float())
    torch.testing.assert_close(ours.cpu().float(), expected, rtol=0.03, atol=0.03)
