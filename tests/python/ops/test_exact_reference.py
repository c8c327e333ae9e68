"""The reference for narrow types accepts every right rounding and refuses a result that is a few
units farther."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from exact_reference import ExactReference, unit_roundoff

NARROW = [torch.bfloat16, torch.float16]


def numbers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def normed(x, w):
    return F.layer_norm(x @ w, [w.shape[1]]).softmax(-1)


def updated(x, w):
    x.mul_(0.3).add_(2)
    return x.relu()


FUNCTIONS = {
    "product": lambda x, w: x @ w,
    "chain": lambda x, w: (x + x * 3 - 1).abs(),
    "exponentials": lambda x, w: (x * 2).exp() + w[0],
    "norm and softmax": normed,
    "update": updated,
    "views": lambda x, w: (x.t()[::2] + 1).reshape(-1),
    "cast": lambda x, w: (x.float() @ w.float()).to(x.dtype),
    "mean": lambda x, w: x.mean(0),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], x[None], x[None]),
}


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_rounding_is_accepted_and_sixteen_are_not(name, dtype):
    function = FUNCTIONS[name]
    given = numbers(24, 16, dtype=dtype), numbers(16, 16, dtype=dtype)
    exact = ExactReference(function, *given)
    assert exact.dtype == dtype
    own = [t.clone() for t in given]
    results = [function(*own), *own]
    # PyTorch's result is within the bound, even without its own error as a bound
    exact.check(results)
    rounded = [value.to(dtype) for value in exact.values]
    exact.check(rounded)
    largest = rounded[0].abs().argmax()
    rounded[0].view(-1)[largest] *= 1 + 32 * unit_roundoff(dtype)
    with pytest.raises(AssertionError, match="result 0: 1 of .* beyond the bound"):
        exact.check(rounded)
    with pytest.raises(AssertionError, match="result 0: 1 of .* beyond the bound"):
        exact.check(rounded, results)


def test_a_sum_in_bf16_is_refused():
    x = numbers(8, 4096, dtype=torch.bfloat16).abs()
    exact = ExactReference(lambda x: x.sum(1), x)
    exact.check([x.sum(1)])
    total = torch.zeros(8, dtype=torch.bfloat16)
    for column in x.unbind(1):
        total += column
    with pytest.raises(AssertionError, match="beyond the bound"):
        exact.check([total])


def test_pytorchs_own_error_is_allowed_where_it_is_larger():
    x = numbers(4, 8, dtype=torch.bfloat16)
    exact = ExactReference(lambda x: x * 2, x)
    rough = x * 2
    rough[0, 0] *= 1.25
    exact.check([rough], [rough])
    with pytest.raises(AssertionError, match="PyTorch's own largest error is 0"):
        exact.check([rough], [x * 2])


def test_integers_and_truth_values_are_exact():
    x = torch.arange(-4, 5)
    exact = ExactReference(lambda x: (x // 3, x > 0), x)
    exact.check([x // 3, x > 0, x])
    with pytest.raises(AssertionError, match="result 0"):
        exact.check([x // 3 + 1, x > 0])
    with pytest.raises(AssertionError, match="result 1"):
        exact.check([x // 3, x >= 0])


def test_overflow_is_infinite():
    x = torch.tensor([60000.0, 1.0, -60000.0], dtype=torch.float16)
    exact = ExactReference(lambda x: x * 2, x)
    exact.check([x * 2])
    with pytest.raises(AssertionError, match="beyond the bound"):
        exact.check([torch.tensor([65504.0, 2.0, -65504.0], dtype=torch.float16)])
    with pytest.raises(AssertionError, match="beyond the bound"):
        exact.check([torch.tensor([torch.nan, 2.0, -torch.inf], dtype=torch.float16)])


def test_gradients_and_autocast():
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))

    def step(x, *weights):
        leaves = [w.detach().requires_grad_() for w in weights]
        named = dict(zip(dict(model.named_parameters()), leaves, strict=True))
        with torch.autocast("cpu", torch.bfloat16):
            loss = torch.func.functional_call(model, named, x).float().square().mean()
        return [loss, *torch.autograd.grad(loss, leaves)]

    given = [numbers(8, 16), *model.parameters()]
    exact = ExactReference(step, *given, coarsest=torch.bfloat16)
    results = step(*given)
    exact.check(results)
    results[1] = results[1] * 1.2
    with pytest.raises(AssertionError, match="result 1"):
        exact.check(results)


def test_bits_have_no_exact_value():
    with pytest.raises(NotImplementedError, match="bits"):
        ExactReference(lambda x: x.view(torch.int16) + 1, numbers(4, dtype=torch.bfloat16))
