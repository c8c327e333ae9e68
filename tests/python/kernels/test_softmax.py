"""Softmaxes of blocks, parts, masks and triangles, and norms, of torch.ops.hpu."""

from __future__ import annotations

import math

import pytest
import torch
from kernel_case import assert_near, by_way, on_device, run
from training_case import matrix

from habana_frameworks.torch.hpex.kernels import CustomSoftmax

hpu = torch.ops.hpu
NEAR = 1e-5, 1e-6


@by_way
@pytest.mark.parametrize("biased", [False, True])
def test_blocks(biased, way):
    scores, bias = matrix(6, 2, 2, 1, 4), matrix(6, 1, 1, 1, 4, seed=1) if biased else None
    groups = torch.zeros(6, dtype=torch.int64)
    found = run(way, "block_softmax", hpu.block_softmax, scores, bias, groups)
    total = scores + bias if biased else scores
    maximum = total.amax(-1, keepdim=True)
    exponentials = (total - maximum).exp()
    assert_near(found, [exponentials, maximum, exponentials.sum(-1, keepdim=True)], *NEAR)


@by_way
def test_adjusted_blocks_are_one_softmax(way):
    """Blocks 0, 2 and 4 are the keys of one sequence, 1 and 3 those of another, and 5 is padding;
    so are block 6 and its group -1."""
    groups = torch.tensor([0, 1, 0, 1, 0, 2, -1])
    scores = matrix(7, 2, 2, 1, 4) * 3

    def adjusted(scores, groups):
        exponentials, maximum, total = hpu.block_softmax(scores, None, groups)
        shape = [7, 2, 2, 1, 1]
        return exponentials * hpu.block_softmax_adjustment(maximum, total, groups, 2, shape)

    y = run(way, "block_softmax_adjustment", adjusted, scores, groups).cpu()
    for group in (0, 1):
        mine = [i for i in range(7) if groups[i] == group]
        want = torch.cat([scores[i] for i in mine], -1).softmax(-1)
        torch.testing.assert_close(torch.cat([y[i] for i in mine], -1), want, rtol=1e-5, atol=1e-6)


@by_way
def test_parts_of_rows(way):
    scores, more = matrix(3, 5) * 3, matrix(3, 4, seed=1) * 3

    def parts(scores, more):
        first = hpu.softmax_fa2(scores)
        return hpu.softmax_fa2(more, inputM=first[1], inputL=first[2], dim=-1), first[0]

    (last, maximum, total, factor), first = run(way, "softmax_fa2", parts, scores, more)
    both = torch.cat((scores, more), -1)
    peaks = both.amax(-1)
    assert_near([maximum, total], [peaks, (both - peaks[:, None]).exp().sum(-1)], *NEAR)
    weights = torch.cat((first * factor.unsqueeze(-1), last), -1) / total.unsqueeze(-1)
    assert_near([weights], [both.softmax(-1)], *NEAR)


def test_parts_of_floats_of_8_bits():
    scores = matrix(3, 5).to(torch.float8_e4m3fn)
    y, maximum, _, _ = hpu.softmax_fa2(scores.to("hpu"), descale=torch.tensor(2.0).to("hpu"))
    wide = scores.float() * 2
    assert y.dtype == maximum.dtype == torch.bfloat16
    want = (wide - wide.amax(-1, keepdim=True)).exp()
    assert_near([y.float(), maximum.float()], [want, wide.amax(-1)], 2**-8, 2**-8)


@by_way
def test_custom_softmax_and_its_gradient(way):
    x, grad = matrix(3, 5).requires_grad_(), matrix(3, 5, seed=1)

    def both(x, grad):
        y = CustomSoftmax.apply(x, 0)
        return y, *torch.autograd.grad(y, x, grad)

    want = x.softmax(-1)
    if way == "compiled":
        assert_near([run(way, "custom_softmax", CustomSoftmax.apply, x, 1)], [want], *NEAR)
        return
    found = run(way, "custom_softmax", both, x, grad)
    assert_near(found, [want, *torch.autograd.grad(want, x, grad)], *NEAR)


@by_way
def test_masks_and_triangles(way):
    x, mask = matrix(2, 2, 4, 4), matrix(2, 1, 1, 4, seed=1)
    y = run(way, "scaled_masked_softmax", hpu.scaled_masked_softmax, x, mask, 0.5)
    assert_near([y], [(x * 0.5 + mask).softmax(-1)], *NEAR)
    hidden = torch.ones(4, 4).triu(1).bool()
    scores = (x * 0.5).masked_fill(hidden, -math.inf)
    y = run(way, "scaled_triangular_softmax", hpu.scaled_triangular_softmax, x, 0.5)
    assert_near([y], [scores.softmax(-1)], *NEAR)

    def again(x):
        _, inverse, maximum = hpu.scaled_triangular_softmax_retain(x, 0.5)
        return hpu.scaled_triangular_softmax(x, 0.5, inverse, maximum), inverse, maximum

    y, inverse, maximum = run(way, "scaled_triangular_softmax_retain", again, x)
    peaks = scores.amax(-1, keepdim=True)
    sums = (scores - peaks).exp().sum(-1, keepdim=True)
    assert_near([y, inverse, maximum], [scores.softmax(-1), 1 / sums, peaks], *NEAR)


@by_way
@pytest.mark.parametrize("name", ["rms_norm", "rms_norm_fast"])
def test_rms_norm(name, way):
    x, gamma, grad = matrix(2, 3, 5), matrix(5, seed=1), matrix(2, 3, 5, seed=2)
    more = (True, 0) if name == "rms_norm" else ()

    def both(x, gamma, grad):
        y, inverse = getattr(hpu, name)(x, gamma, 1e-5)
        return y, inverse, *getattr(hpu, f"{name}_backward")(grad, x, gamma, inverse, *more)

    leaves = [x.double().requires_grad_(), gamma.double().requires_grad_()]
    want = torch.nn.functional.rms_norm(leaves[0], [5], leaves[1], 1e-5)
    inverse = (x.double().square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    gradients = torch.autograd.grad(want, leaves, grad.double())
    found = [t.double() for t in run(way, name, both, x, gamma, grad)]
    assert_near(found, [want, inverse, *gradients], 1e-5, 1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["rms_norm", "rms_norm_fast"])
def test_rms_norm_has_a_gradient(name, compiled):
    leaves = [matrix(2, 3, 5).requires_grad_(), matrix(5, seed=1).requires_grad_()]
    grad = matrix(2, 3, 5, seed=2)

    def norm(x, gamma):
        return getattr(hpu, name)(x, gamma, 1e-5)[0]

    placed = on_device(leaves)
    y = (torch.compile(norm, backend="hpu_backend") if compiled else norm)(*placed)
    found = torch.autograd.grad(y, placed, grad.to("hpu"))
    want = torch.nn.functional.rms_norm(leaves[0], [5], leaves[1], 1e-5)
    assert_near(found, torch.autograd.grad(want, leaves, grad), 1e-5, 1e-5)


def test_narrow_types_round_once():
    x, gamma = matrix(3, 64).bfloat16(), matrix(64, seed=1).bfloat16()
    y, inverse = hpu.rms_norm(*on_device((x, gamma)), 1e-5)
    want = torch.nn.functional.rms_norm(x.double(), [64], gamma.double(), 1e-5)
    assert (y.dtype, inverse.dtype) == (torch.bfloat16, torch.float32)
    assert_near([y.double()], [want], 2**-8, 2**-16)


@by_way
@pytest.mark.parametrize("out_dtype", [None, torch.float8_e5m2])
def test_triangles_of_groups_with_masks(out_dtype, way):
    """A query without keys gets zeros, and the last query stands at the last key."""
    x = matrix(4, 3, 5).sin()
    bounds = torch.tensor([[0, 4], [3, 5]])

    def softmax(x, bounds):
        return hpu.scaled_masked_triangular_softmax(x, bounds, 1.3, 2, True, 0, out_dtype)

    y = run(way, "scaled_masked_triangular_softmax", softmax, x, bounds)
    place = torch.arange(5)
    for row in range(4):
        start, end = bounds[row // 2]
        for query in range(3):
            inside = (place >= start) & (place < end) & (place <= query + 2)
            scores = (x[row, query] * 1.3).masked_fill(~inside, -math.inf)
            want = scores.softmax(-1).nan_to_num(0)
            if out_dtype is not None:
                want = want.to(out_dtype).float()
            assert_near([y[row, query].float()], [want], *NEAR)
