"""Attention with its gradients, compiled, against CPU eager."""

from __future__ import annotations

import pytest
import torch
from helpers import check, compiled_whole, fresh_process
from training_case import by_sizes

from habana_frameworks.torch.dynamo import report

aten = torch.ops.aten

MASKS = {
    "none": None,
    "added": by_sizes(6, 6),
    "broadcast": by_sizes(2, 1, 6, 6),
    "hidden row": torch.tensor([[float("-inf")] * 6] + [[0.0] * 6] * 5),
}


@pytest.mark.parametrize(("mask", "causal"), [*((mask, False) for mask in MASKS), ("none", True)])
def test_attention(mask, causal):
    tensors = [by_sizes(2, 3, 6, 8), by_sizes(2, 3, 6, 9), by_sizes(2, 3, 6, 10)]
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
    q, k, v = by_sizes(2, 4, 6, 8), by_sizes(2, shared, 6, 8) + 1, by_sizes(2, shared, 6, 8) - 1

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
    given = [by_sizes(1, 4, length, features + i)[..., :features].to(dtype) for i in range(4)]

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
    given = [by_sizes(1, 2, 8, size).to(dtype) for size in (16, 16, 12)]
    compiled_whole(check(spelt_out, *given, hidden_rows()))


def test_no_gradient_of_scores_reaches_what_is_hidden():
    given, grad = [by_sizes(1, 2, 8, size) for size in (16, 17, 18)], by_sizes(1, 2, 8, 18)
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
