"""Floats of 8 bits: casts, products, convolutions, sums and softmaxes of torch.ops.hpu."""

from __future__ import annotations

import pytest
import torch
from kernel_case import assert_near, by_way, run
from training_case import matrix

from habana_frameworks.torch.hpex.kernels import Fp8Ops

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
by_format = pytest.mark.parametrize("fp8", [E4M3, E5M2], ids=["e4m3", "e5m2"])
hpu = torch.ops.hpu


def bits(x):
    return x.cpu().view(torch.uint8)


def small(*sizes, fp8=E4M3, seed=0):
    return matrix(*sizes, seed=seed).to(fp8)


# ---- casts ---------------------------------------------------------------------------------------


@by_format
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("scale", "shape"),
    [
        (None, None),
        (1.3, None),
        (torch.tensor(1.3), None),
        (torch.tensor([0.5, 1.3, 2.0, 0.01]), [4, 1]),
        ([0.5, 1.3, 2.0, 0.01, 3.0, 7.0], [1, 6]),
    ],
    ids=["none", "number", "tensor", "rows", "columns"],
)
def test_cast_rounds_the_product_once_more(scale, shape, dtype, fp8):
    """The product has the input's type before it becomes one of 8 bits."""
    x = (matrix(4, 6) * 30).to(dtype)
    placed = scale.to("hpu") if isinstance(scale, torch.Tensor) else scale
    ours, amax = hpu.cast_to_fp8_v2(x.to("hpu"), placed, False, False, fp8, shape)
    by = torch.ones(()) if scale is None else torch.as_tensor(scale)
    product = x * (by.reshape(shape) if shape else by).to(dtype)
    assert ours.dtype == fp8
    assert torch.equal(bits(ours), bits(product.to(fp8)))
    assert (amax.numel(), amax.dtype) == (0, torch.float32)


@by_format
@pytest.mark.parametrize("way", ["lazy", "compiled"])
def test_casts_in_graphs(way, fp8):
    x = matrix(4, 6) * 30

    def there_and_back(x):
        casted, amax = hpu.cast_to_fp8_v2(x, 0.7, False, True, fp8)
        return casted, amax, hpu.cast_from_fp8(casted, 1 / 0.7, torch.bfloat16)

    casted, amax, back = run(way, "cast_to_fp8_v2", there_and_back, x)
    want = (x * 0.7).to(fp8)
    assert torch.equal(bits(casted), bits(want))
    assert amax.item() == x.abs().max().item()
    factor = torch.tensor(1 / 0.7).bfloat16()
    assert torch.equal(back.cpu(), (want.bfloat16() * factor))


@by_format
@pytest.mark.parametrize("stochastic", [False, True])
def test_cast_saturates(stochastic, fp8):
    x = torch.tensor([1e6, -1e6, float("inf"), 0.0])
    ours, _ = hpu.cast_to_fp8_v2(x.to("hpu"), None, stochastic, False, fp8)
    largest = torch.finfo(fp8).max
    assert ours.cpu().float().tolist() == [largest, -largest, largest, 0]


@by_way
def test_stochastic_rounding_gives_the_neighbours_in_proportion(way):
    """1.03125 lies a quarter of the way from 1 to 1.125."""
    x = torch.full((4000,), 1.03125)
    casted, _ = run(
        way, "cast_to_fp8_v2", lambda x: hpu.cast_to_fp8_v2(x, None, True, False, E4M3), x
    )
    values, counts = casted.cpu().float().unique(return_counts=True)
    assert values.tolist() == [1.0, 1.125]
    # The standard deviation of the count is 27.
    assert abs(counts[1].item() - 1000) < 150


@by_way
@pytest.mark.parametrize("fp8", [E4M3, torch.float8_e5m2])
def test_stochastic_rounding_leaves_what_needs_none(way, fp8):
    """Powers of two are the ends of a binade, where the step changes."""
    every = torch.arange(256, dtype=torch.uint8).view(fp8).float()
    exact = every[every.isfinite()].repeat(20, 1)
    casted, _ = run(
        way, "cast_to_fp8_v2", lambda x: hpu.cast_to_fp8_v2(x, None, True, False, fp8), exact
    )
    assert torch.equal(casted.cpu().float(), exact)


@by_way
@pytest.mark.parametrize("fp8", [E4M3, torch.float8_e5m2])
def test_stochastic_rounding_gives_neighbours_whose_mean_is_the_number(way, fp8):
    """Below, at and above a power of two."""
    for number in (0.97, -1.03, 3.9):
        x = torch.full((4000,), number)
        casted, _ = run(
            way, "cast_to_fp8_v2", lambda x: hpu.cast_to_fp8_v2(x, None, True, False, fp8), x
        )
        every = torch.arange(256, dtype=torch.uint8).view(fp8).float()
        every = every[every.isfinite()]
        neighbours = [every[every < number].max().item(), every[every > number].min().item()]
        found = casted.cpu().float()
        assert sorted(found.unique().tolist()) == neighbours
        # Five standard deviations of the mean of 4,000 draws.
        assert abs(found.mean().item() - number) < 2.5 * (neighbours[1] - neighbours[0]) / 63


def test_the_largest_of_nothing_is_0():
    casted, largest = hpu.cast_to_fp8_v2(torch.empty(0, 3, device="hpu"), None, False, True, E4M3)
    assert (casted.shape, largest.item()) == ((0, 3), 0)


def test_another_type_is_refused():
    with pytest.raises(
        RuntimeError, match=r"cast_to_fp8_v2: dtype is torch\.float32; it is one of"
    ):
        hpu.cast_to_fp8_v2(torch.ones(3, device="hpu"), None, False, False, torch.float32)


def test_casts_of_floats_of_8_bits():
    x = small(3, 4).to("hpu")
    assert torch.equal(bits(hpu.cast_to_fp8_v2(x, None, False, False, E4M3)[0]), bits(x))
    with pytest.raises(RuntimeError, match="CastToFp8V2 must have no amax for float8"):
        hpu.cast_to_fp8_v2(x, None, False, True, E4M3)
    with pytest.raises(RuntimeError, match="are Float8_e4m3fn and Float8_e5m2"):
        hpu.cast_to_fp8_v2(x, None, False, False, E5M2)


def test_the_cast_to_both_formats():
    x = matrix(4, 6) * 20
    scales = [torch.tensor(s).to("hpu") for s in (1.3, 0.7)]
    e5m2, e4m3, amax = hpu.cast_to_fp8_hybrid(x.to("hpu"), *scales, False, True)
    assert torch.equal(bits(e5m2), bits((x * 1.3).to(E5M2)))
    assert torch.equal(bits(e4m3), bits((x * 0.7).to(E4M3)))
    assert amax.item() == x.abs().max().item()


def test_the_cast_with_given_results():
    x = (matrix(4, 6) * 20).to("hpu")
    out, amax = torch.empty(4, 6, dtype=E5M2, device="hpu"), torch.zeros(1, device="hpu")
    results = hpu.cast_to_fp8(x, None, False, out, amax)
    assert results[0] is out
    assert torch.equal(bits(out), bits(x.cpu().to(E5M2)))
    assert amax.item() == x.cpu().abs().max().item()


def test_functions_of_hpex():
    x, w = (matrix(4, 6) * 20).to("hpu"), matrix(6, 3, seed=1).to("hpu")
    q, _ = Fp8Ops.cast_to_fp8_v2(x, 2.0, dtype=E4M3)
    weight, _ = Fp8Ops.cast_to_fp8_v2(w, None, False, False, E4M3)
    assert torch.equal(bits(q), bits((x.cpu() * 2).to(E4M3)))
    assert_near([Fp8Ops.cast_from_fp8(q, 0.5, torch.float32)], [q.cpu().float() / 2], 0, 0)
    y = Fp8Ops.fp8_gemm_v2(q, False, weight, False, None, torch.float32, 0.5, 1.0)
    assert_near([y.double()], [q.cpu().double() @ weight.cpu().double() / 2], 1e-5, 1e-5)
    out, amax = torch.empty(4, 6, dtype=E5M2, device="hpu"), torch.zeros(1, device="hpu")
    assert Fp8Ops.cast_to_fp8(x, None, False, out, amax)[0] is out
    assert torch.equal(bits(out), bits(x.cpu().to(E5M2)))


# ---- products ------------------------------------------------------------------------------------


@by_way
@by_format
@pytest.mark.parametrize("out", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("transposed", [False, True])
def test_product(transposed, out, fp8, way):
    a, b = small(2, 5, 8, fp8=fp8), small(8, 6, fp8=fp8, seed=1)
    scale, scales, bias = torch.tensor(0.5), matrix(6, seed=2).abs(), matrix(6, seed=3)
    if transposed:
        a, b = a.mT.contiguous(), b.mT.contiguous()

    def product(a, b, scale, scales, bias):
        return hpu.fp8_gemm_v2(a, transposed, b, transposed, None, out, scale, scales, bias, False)

    y = run(way, "fp8_gemm_v2", product, a, b, scale, scales, bias)
    exact = (a.double().mT if transposed else a.double()) @ (
        b.double().mT if transposed else b.double()
    )
    want = exact * 0.5 * scales + bias
    assert y.dtype == out
    tolerance = 1e-5 if out == torch.float32 else 2**-6
    assert_near([y.double()], [want], tolerance, tolerance)


def test_product_with_numbers_and_accumulation():
    a, b, d = small(3, 4), small(4, 2, seed=1), matrix(3, 2, seed=2)
    placed = [t.to("hpu") for t in (a, b, d)]
    y = hpu.fp8_gemm_v2(placed[0], False, placed[1], False, placed[2], torch.float32, 0.5, 3.0,
                        None, True)  # fmt: skip
    assert_near([y.double()], [a.double() @ b.double() * 1.5 + d.double()], 1e-5, 1e-5)
    rows = hpu.fp8_gemm_v2(placed[0], False, placed[1], False, None, torch.float32, [1.0],
                           [1.0, 2.0, 4.0], None, False, [3, 1])  # fmt: skip
    assert_near(
        [rows.double()],
        [a.double() @ b.double() * torch.tensor([[1.0], [2.0], [4.0]])],
        1e-5,
        1e-5,
    )
    with pytest.raises(RuntimeError, match="accumulate is true and D is None"):
        hpu.fp8_gemm_v2(placed[0], False, placed[1], False, None, torch.float32, None, None, None,
                        True)  # fmt: skip


@by_way
@pytest.mark.parametrize("by_channel", [False, True])
def test_pytorchs_scaled_product(by_channel, way):
    a, b = small(16, 32), small(32, 16, seed=1).t().contiguous().t()
    sizes = ((16, 1), (1, 16)) if by_channel else ((), ())
    scales = [matrix(*s, seed=n).abs() if s else torch.tensor(0.5 + n) for n, s in enumerate(sizes)]

    def product(a, b, x, y):
        return torch._scaled_mm(a, b, x, y, out_dtype=torch.bfloat16)

    if way == "eager":
        y = product(*(t.to("hpu") for t in (a, b, *scales)))
    else:
        y = run(way, "_scaled_mm", product, a, b, *scales)
    want = (a.double() * scales[0]) @ (b.double() * scales[1])
    assert_near([y.double()], [want], 2**-6, 2**-6)


# ---- the others ----------------------------------------------------------------------------------


@by_way
@by_format
def test_convolution(fp8, way):
    x, weight, bias = small(2, 3, 8, 8, fp8=fp8), small(4, 3, 2, 3, fp8=fp8, seed=1), matrix(4)
    scales = torch.tensor(1.5), matrix(4, seed=2).abs()

    def convolution(x, weight, bias, *scales):
        return hpu.conv2d_fp8(x, weight, bias, (1, 2), (1, 0), (1, 1), 1, torch.float32, *scales)

    given = [t.to("hpu") for t in (x, weight, bias, *scales)]
    y = (
        convolution(*given)
        if way == "eager"
        else torch.compile(convolution, backend="hpu_backend")(*given)
    )
    exact = torch.conv2d(x.double(), weight.double(), None, (1, 2), (1, 0))
    want = exact * 1.5 * scales[1].reshape(-1, 1, 1) + bias.reshape(-1, 1, 1)
    assert_near([y.double()], [want], 1e-5, 1e-5)
    if way == "eager":
        scaled = hpu.conv2d_fp8(
            given[0], given[1], None, (1, 1), (0, 0), (1, 1), 1, None, 2.0, 0.25
        )
        exact = torch.conv2d(x.double(), weight.double()) * 0.5
        assert scaled.dtype == torch.bfloat16
        assert_near([scaled.double()], [exact], 2**-7, 2**-7)


@by_format
@pytest.mark.parametrize("dim", [None, 0, (0, 2)])
@pytest.mark.parametrize("out", [None, torch.float32])
def test_sum(out, dim, fp8):
    x = small(4, 5, 6, fp8=fp8)
    y = hpu.sum_fp8(x.to("hpu"), dim, True, out)
    want = x.float().sum(list(range(3)) if dim is None else dim, True)
    assert y.dtype == (fp8 if out is None else out)
    if out is None:
        assert torch.equal(bits(y), bits(want.to(fp8)))
    else:
        assert_near([y], [want], 1e-6, 1e-6)


@by_way
@pytest.mark.parametrize("scales", [None, "numbers", "tensors"])
def test_softmax(scales, way):
    x = matrix(2, 3, 6).bfloat16() * 4
    add = matrix(2, 1, 6, seed=2).bfloat16()
    given = {
        None: (None, None, torch.tensor(0.3)),
        "numbers": (0.5, 2.5, 0.3),
        "tensors": (torch.tensor(0.5), torch.tensor(2.5), torch.tensor(0.3)),
    }[scales]

    def softmax(x, add, *scales):
        return hpu.softmax_fp8(x, -1, *scales, add)

    y = run(way, "softmax_fp8", softmax, x, add, *given)
    inputs = x.double() * 0.3 * (0.5 if scales else 1) + add
    want = torch.softmax(inputs, -1) * (2.5 if scales else 1)
    assert y.dtype == (E4M3 if scales else torch.bfloat16)
    # A last place of e4m3 is 2**-9 of the smallest number, and an eighth of others.
    tolerance = (2**-4, 2**-10) if scales else (2**-8, 2**-10)
    assert_near([y.double()], [want], *tolerance)


def test_softmax_takes_both_scales_or_none():
    with pytest.raises(RuntimeError, match="scales must be both given or None"):
        hpu.softmax_fp8(matrix(2, 4).bfloat16().to("hpu"), -1, torch.tensor(1.0).to("hpu"))
