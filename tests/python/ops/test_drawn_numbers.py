"""Draws from distributions: their means, their samples, and wrong arguments. test_random.py shows
that the numbers do not depend on the way."""

from __future__ import annotations

import math

import pytest
import torch

# The mean of n draws deviates by sigma / sqrt(n); six of those are exceeded once in 5e8 seeds.
MEANS = {
    "exponential_": (lambda t: t.exponential_(4.0), 1 / 4, 1 / 4),
    "geometric_": (lambda t: t.geometric_(0.25), 4.0, math.sqrt(0.75) / 0.25),
    "log_normal_": (lambda t: t.log_normal_(0, 0.5), math.exp(0.125), 0.605),
    "cauchy_, by its arctangent": (lambda t: ((t.cauchy_(1, 2) - 1) / 2).atan(), 0.0, 0.907),
    "a large range": (lambda t: t.random_(0, 2**24 + 5) / (2**24 + 5), 0.5, math.sqrt(1 / 12)),
}


@pytest.mark.parametrize("name", MEANS)
def test_means_of_distributions(name):
    draw, mean, deviation = MEANS[name]
    count = 1 << 18
    torch.hpu.manual_seed(11)
    found = draw(torch.empty(count, device="hpu")).double().mean().item()
    assert abs(found - mean) < 6 * deviation / math.sqrt(count)


def test_exponential_numbers_are_never_zero():
    torch.hpu.manual_seed(0)
    numbers = torch.empty(1 << 24, device="hpu").exponential_()
    assert numbers.min().item() >= 2**-25


@pytest.mark.parametrize("replacement", [False, True])
def test_samples_are_drawn_by_their_weights(replacement):
    """A weight of a quarter gets 16384 +- 111 of 2^16 draws, and one of half gets 32768 +- 128."""
    weights = torch.tensor([0.0, 1, 0, 2, 1, 0]).repeat(1 << 16, 1).to("hpu")
    torch.hpu.manual_seed(2)
    if replacement:
        drawn = torch.multinomial(weights[0], 1 << 16, True)
    else:
        drawn = torch.multinomial(weights, 1)
        pairs = torch.multinomial(weights[:100], 3).sort(1).values
        assert torch.equal(pairs.cpu(), torch.tensor([1, 3, 4]).expand(100, 3))
    counts = torch.bincount(drawn.flatten().cpu(), minlength=6)
    assert (counts - torch.tensor([0, 1 << 14, 0, 1 << 15, 1 << 14, 0])).abs().max() < 6 * 128
    assert counts[[0, 2, 5]].sum() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("high", [257, 1000, 2**25])
def test_integers_are_below_their_bound(dtype, high):
    """Also where the type rounds the largest of them up."""
    high = min(high, 2**15) if dtype == torch.float16 else high
    numbers = torch.randint(0, high, (100_000,), device="hpu", dtype=dtype).float()
    assert numbers.max().item() < high and numbers.min().item() >= 0


def test_types_that_only_the_cpu_draws():
    assert torch.randint(0, 10, (3,), dtype=torch.uint16, device="hpu").cpu().int().max() < 10
    wide = torch.empty(4000, device="hpu", dtype=torch.float64).exponential_().cpu()
    assert not torch.equal(wide, wide.float().double())
    assert torch.empty(300, device="hpu", dtype=torch.int8).geometric_(0.9).min() >= 1


def test_permutations_are_permutations():
    """Each of 6 orders of 3 elements is drawn 1000 +- 29 times."""
    torch.hpu.manual_seed(4)
    long = torch.randperm(100_000, device="hpu")
    assert torch.equal(long.sort().values.cpu(), torch.arange(100_000))
    found: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        order = tuple(torch.randperm(3, device="hpu").tolist())
        found[order] = found.get(order, 0) + 1
    assert len(found) == 6
    assert all(abs(count - 1000) < 6 * 29 for count in found.values())


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda t: t.exponential_(0), "lambda > 0.0"),
        (lambda t: t.geometric_(1.5), r"p to be in \(0, 1\)"),
        (lambda t: t.log_normal_(0, -1), "std > 0.0"),
        (lambda t: t.cauchy_(0, -1), "sigma > 0.0"),
        (lambda t: t.long().exponential_(), "continuous probability distribution"),
        (lambda t: torch.normal(t, -1.0), "std >= 0.0"),
        (lambda t: torch.multinomial(t - 2, 1), "element < 0"),
        (lambda t: torch.multinomial(t * 0, 1), "sum of probabilities <= 0"),
        (lambda t: torch.multinomial(t, 9), "without replacement"),
        (lambda t: torch.multinomial(t.long(), 1), "floating-point dtypes"),
        (lambda t: torch.normal(0.0, t - 2), "elements of std >= 0.0"),
        (lambda t: torch.normal(t, t - 2), "elements of std >= 0.0"),
        (lambda t: t.byte().random_(0, 1000), "out of bounds for unsigned char"),
        (lambda t: t.int().random_(0, 2**32), "out of bounds for int"),
        (lambda t: torch.randperm(300, dtype=torch.uint8, device=t.device), "cannot be|too large"),
        (lambda t: torch.randperm(5000, dtype=torch.float16, device=t.device), "greater than 2049"),
        (lambda t: torch.randperm(-1, device=t.device), "negative dimension -1"),
    ],
)
def test_wrong_arguments_are_told(draw, message):
    for device in ("cpu", "hpu"):
        with pytest.raises(RuntimeError, match=message):
            draw(torch.ones(4, device=device))


def test_every_integer_is_drawn_about_as_often():
    """Each of eight integers gets 2^17 +- 339 of 2^20 draws; six of those deviations are exceeded
    once in 5e7 seeds."""
    torch.hpu.manual_seed(3)
    numbers = torch.randint(-4, 4, (2**20,), device="hpu").cpu()
    counts = torch.bincount(numbers + 4)
    assert counts.shape == (8,)
    assert (counts - 2**17).abs().max().item() < 6 * 339


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_uniform_numbers_fill_their_interval(dtype):
    torch.hpu.manual_seed(1)
    x = torch.rand(1 << 16, device="hpu", dtype=dtype).cpu().double()
    assert x.min() >= 0 and x.max() < 1
    # Rounding down to a grid of 2^-b lowers the mean by 2^-(b + 1): b = 8 for bf16.
    assert abs(x.mean() - 0.5) < 6 / math.sqrt(12 * 2**16) + 2**-9


# Fourth moments have variance (105 - 9) / n.
def test_normal_numbers_have_their_moments():
    torch.hpu.manual_seed(7)
    x = torch.empty(1 << 20, device="hpu").normal_().cpu().double()
    n = x.numel()
    assert abs(x.mean()) < 6 / math.sqrt(n)
    assert abs((x**2).mean() - 1) < 6 * math.sqrt(2 / n)
    assert abs((x**4).mean() - 3) < 6 * math.sqrt(96 / n)
    # Neighbours are independent.
    assert abs((x[1:] * x[:-1]).mean()) < 6 / math.sqrt(n)


# 943718 +- 307 of 2^20 draws with probability 0.9 are kept; six of those deviations are
# exceeded once in 5e8 seeds.
def test_dropout_keeps_as_many_as_it_says():
    torch.hpu.manual_seed(7)
    y = torch.nn.functional.dropout(torch.ones(1 << 20, device="hpu"), 0.1, True).cpu()
    kept = (y != 0).sum().item()
    assert abs(kept - 0.9 * 2**20) < 6 * math.sqrt(2**20 * 0.9 * 0.1)
    assert set(y.unique().tolist()) == {0.0, float(torch.tensor(1.0) / torch.tensor(0.9))}
