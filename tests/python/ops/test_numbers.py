"""Python numbers beside tensors: how precise they are, and which numbers a type refuses.

PyTorch calculates with a number in f32 beside bf16 and f16 and rounds the result once; comparisons,
choices, powers and remainders take the number rounded to the tensor's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process

NUMBERS = [1e-8, 1e-7, 1e-5, 1e-3, 0.1, 1 / 3, 80**-0.5, 0.7, 3.3, 12.3, 1000.1, 7e4, 1e6, -0.1]
NARROW = [torch.float16, torch.bfloat16]

Function = Callable[[torch.Tensor, float], torch.Tensor]

# The reference is the same function on f32 tensors of the same values, rounded once at the end.
ROUNDED_ONCE: dict[str, Function] = {
    "mul": lambda x, v: x * v,
    "mul from the left": lambda x, v: v * x,
    "mul in place": lambda x, v: x.clone().mul_(v),
    "mul by a 0-d tensor": lambda x, v: x * torch.tensor(v),
    "add": lambda x, v: x + v,
    "add a 0-d tensor": lambda x, v: torch.tensor(v) + x,
    "sub": lambda x, v: x - v,
    "rsub": lambda x, v: v - x,
    "div": lambda x, v: x / v,
    "div trunc": lambda x, v: torch.div(x, v, rounding_mode="trunc"),
    "floor_divide": lambda x, v: x // v,
    "add alpha": lambda x, v: torch.add(x, x.flip(0), alpha=v),
    "sub alpha": lambda x, v: torch.sub(x, x.flip(0), alpha=v),
    "rsub alpha": lambda x, v: torch.rsub(x, x.flip(0), alpha=v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x.flip(0), value=v),
    "lerp": lambda x, v: torch.lerp(x, x.flip(0), v),
    "foreach_mul": lambda x, v: torch._foreach_mul([x], v)[0],
    "foreach_add alpha": lambda x, v: torch._foreach_add([x], [x.flip(0)], alpha=v)[0],
    "leaky_relu": lambda x, v: F.leaky_relu(x, v),
    "threshold": lambda x, v: F.threshold(x, v, 3.0),
}

# These give the same as CPU eager, bit for bit, because the number has the tensor's type.
IN_THE_TYPE: dict[str, Function] = {
    "gt": lambda x, v: x > v,
    "ge": lambda x, v: x >= v,
    "lt": lambda x, v: x < v,
    "le": lambda x, v: x <= v,
    "eq": lambda x, v: x == v,
    "ne": lambda x, v: x != v,
    "eq a 0-d tensor": lambda x, v: x == torch.tensor(v),
    "remainder": lambda x, v: x % v,
    "fmod": lambda x, v: torch.fmod(x, v),
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "where": lambda x, v: torch.where(x > 0, x, v),
    "clamp": lambda x, v: x.clamp(max=v),
    "clamp_min": lambda x, v: x.clamp_min(v),
    "hardtanh": lambda x, v: F.hardtanh(x, -abs(v), abs(v)),
    "hardshrink": lambda x, v: F.hardshrink(x, abs(v)),
    "fill": lambda x, v: x.clone().fill_(v),
    "full_like": lambda x, v: torch.full_like(x, v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "copysign": lambda x, v: torch.copysign(x, v),
    "index_fill": lambda x, v: x.index_fill(0, torch.zeros(1, dtype=int, device=x.device), v),
}


def values(dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(60, generator=generator) * size for size in (0.01, 3, 50)]
    # The numbers themselves, rounded to the type, because comparisons depend on equal values.
    equal = torch.tensor([number for number in NUMBERS if abs(number) < 6e4])
    return torch.cat([*rows, equal]).to(dtype)


def of_all_numbers(function: Function, x: torch.Tensor, numbers: list[float]) -> Any:
    return [function(x, number) for number in numbers]


def accepted(function: Function, x: torch.Tensor) -> list[float]:
    """The numbers for which eager gives a result; f16 cannot hold all of them."""
    numbers = []
    for number in NUMBERS:
        try:
            function(x, number)
        except RuntimeError:
            continue
        numbers.append(number)
    return numbers


def compiled_results(function: Function, x: torch.Tensor, numbers: list[float]) -> Any:
    fresh_process()
    compiled = torch.compile(of_all_numbers, backend="hpu_backend", dynamic=False)
    return [result.cpu() for result in compiled(function, x.to("hpu"), numbers)]


def assert_same(ours: list[torch.Tensor], right: list[torch.Tensor], numbers: list[float]) -> None:
    for got, want, number in zip(ours, right, numbers, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True, msg=f"{number}")


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", ROUNDED_ONCE)
def test_the_result_is_rounded_once(name: str, dtype: torch.dtype) -> None:
    function = ROUNDED_ONCE[name]
    x = values(dtype)
    numbers = accepted(function, x)
    right = [result.to(dtype) for result in of_all_numbers(function, x.float(), numbers)]
    assert_same(compiled_results(function, x, numbers), right, numbers)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", IN_THE_TYPE)
def test_the_number_has_the_tensors_type(name: str, dtype: torch.dtype) -> None:
    function = IN_THE_TYPE[name]
    x = values(dtype)
    numbers = accepted(function, x)
    right = of_all_numbers(function, x, numbers)
    assert_same(compiled_results(function, x, numbers), right, numbers)


def compiled(function: Callable[..., Any], *args: Any) -> Any:
    fresh_process()
    return torch.compile(function, backend="hpu_backend", dynamic=False)(*args)


def test_a_small_factor_and_its_inverse() -> None:
    x = torch.tensor([1.0, 2.5, -3.0], dtype=torch.float16)
    ours = compiled(lambda x: (x * 1e-3) * 1e3, x.to("hpu")).cpu()
    torch.testing.assert_close(ours, (x * 1e-3) * 1e3, rtol=2e-3, atol=0)
    assert compiled(lambda x: (x * 1e-7) * 1e7, x.to("hpu")).isfinite().all()


def test_a_scale_of_attention_that_bf16_does_not_hold() -> None:
    """1 / sqrt(80) in bf16 is 0.1 % too small, and every score would have that bias."""
    generator = torch.Generator().manual_seed(1)
    query, key = (torch.randn(64, 80, generator=generator).bfloat16() for _ in range(2))

    def scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (query @ key.T).float().abs().sum(), ((query @ key.T) * 80**-0.5).float().abs().sum()

    plain, scaled = compiled(scores, query.to("hpu"), key.to("hpu"))
    assert abs(scaled.item() / plain.item() * 80**0.5 - 1) < 2e-4


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.3), (3.3, 0.0), (1.0, 80**-0.5)])
def test_factors_of_a_product(dtype: torch.dtype, alpha: float, beta: float) -> None:
    """The sums are exact, because they are whole numbers; only the rounding of the result
    remains."""
    a = torch.arange(64.0).reshape(8, 8).remainder(5).to(dtype)
    b = torch.arange(64.0).reshape(8, 8).remainder(7).to(dtype)
    c = torch.arange(64.0).reshape(8, 8).to(dtype)
    functions = [
        lambda c, a, b: torch.addmm(c, a, b, alpha=alpha, beta=beta),
        lambda c, a, b: torch.addmv(c[0], a, b[0], alpha=alpha, beta=beta),
        lambda c, a, b: torch.baddbmm(c[None], a[None], b[None], alpha=alpha, beta=beta),
    ]
    for function in functions:
        right = function(c.double(), a.double(), b.double()).to(dtype)
        ours = compiled(function, c.to("hpu"), a.to("hpu"), b.to("hpu")).cpu()
        torch.testing.assert_close(ours, right, rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("count", [1_500_000, 20_000_000])
def test_moments_of_many_halves(count: int) -> None:
    """A count, its inverse and a sum of squares do not fit into f16."""
    x = torch.rand(count, generator=torch.Generator().manual_seed(2)).half()
    functions = [torch.var, torch.std, lambda x: x.var(0, correction=0), torch.linalg.vector_norm]
    for function in functions:
        right = function(x.double()).half()
        torch.testing.assert_close(
            compiled(function, x.to("hpu")).cpu(), right, rtol=2e-3, atol=0, msg=str(function)
        )
    for ours, right in zip(
        compiled(lambda x: (*torch.var_mean(x), *torch.std_mean(x)), x.to("hpu")),
        (*torch.var_mean(x.double()), *torch.std_mean(x.double())),
        strict=True,
    ):
        torch.testing.assert_close(ours.cpu(), right.half(), rtol=2e-3, atol=0)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_addcdiv(dtype: torch.dtype) -> None:
    """Dynamo takes it apart: quotient and product are each rounded."""
    x = values(dtype)
    numbers = [number for number in NUMBERS if abs(number) < 6e4]

    def function(x: torch.Tensor, number: float) -> torch.Tensor:
        return torch.addcdiv(x, x, x.flip(0), value=number)

    ours = compiled_results(function, x, numbers)
    for got, number in zip(ours, numbers, strict=True):
        term = number * (x.double() / x.flip(0).double())
        right = x.double() + term
        bound = torch.finfo(dtype).eps * (x.double().abs() + 2 * term.abs()) + 1e-7
        fits = right.abs() < torch.finfo(dtype).max / 2
        assert ((got.double() - right).abs() <= bound)[fits].all(), number


def test_sums_of_squares_beyond_f16() -> None:
    x = torch.full((10, 1000), 300.0, dtype=torch.float16)
    for function in (
        lambda x: x.norm(dim=1),
        lambda x: torch.linalg.vector_norm(x, 3.0, dim=1) / 8,
        lambda x: torch.logsumexp(x / 300, 1),
        lambda x: x.std(1) + x.var(1),
    ):
        right = function(x.double()).half()
        torch.testing.assert_close(compiled(function, x.to("hpu")).cpu(), right, rtol=2e-3, atol=0)


REFUSED: list[tuple[torch.dtype, float, list[str]]] = [
    (torch.int8, 1000, ["clamp", "masked_fill", "where", "full_like", "fill", "pad", "index_fill"]),
    (torch.int8, -129, ["clamp_min", "masked_fill", "fill", "hardtanh"]),
    (torch.uint8, 256, ["clamp", "masked_fill", "full_like", "where"]),
    (torch.int16, 1 << 15, ["clamp", "masked_fill", "fill"]),
    (torch.int32, 1 << 31, ["clamp", "full_like", "index_fill"]),
    (torch.float16, -1e9, ["clamp", "masked_fill", "full_like", "fill", "pad", "index_fill"]),
    (torch.bfloat16, 1e39, ["clamp", "masked_fill", "full_like", "fill", "hardtanh"]),
    (torch.float32, 1e40, ["clamp", "masked_fill", "where", "full_like", "fill", "pad"]),
]


# Since PyTorch 2.15 any number bounds integers.
BOUNDS = ("clamp", "clamp_min", "hardtanh") if torch.__version__ >= (2, 15) else ()


@pytest.mark.parametrize(
    ("dtype", "number", "name"),
    [(dtype, number, name) for dtype, number, names in REFUSED for name in names],
    ids=str,
)
def test_a_number_that_the_type_cannot_hold(dtype: torch.dtype, number: float, name: str) -> None:
    x = torch.tensor([1, 2, 3]).to(dtype)

    def function(x: torch.Tensor) -> torch.Tensor:
        return IN_THE_TYPE[name](x, number)

    if name in BOUNDS and not dtype.is_floating_point:
        assert torch.equal(function(x), x)
        assert torch.equal(compiled(function, x.to("hpu")).cpu(), x)
        return
    with pytest.raises(RuntimeError, match="without overflow") as eager:
        function(x)
    with pytest.raises(RuntimeError, match="without overflow") as ours:
        compiled(function, x.to("hpu"))
    assert str(eager.value) in str(ours.value)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(torch.int8, 1000), (torch.uint8, -1), (torch.uint8, 300), (torch.int16, 70000)],
    ids=str,
)
def test_arithmetic_of_integers_wraps(dtype: torch.dtype, number: int) -> None:
    x = torch.tensor([1, 2, 100]).to(dtype)

    def function(x: torch.Tensor) -> Any:
        return x + number, x * number, x - number, number - x, x > number, x == number, x // number

    for got, want in zip(compiled(function, x.to("hpu")), function(x), strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)


def test_infinities_and_nan_fit_every_float() -> None:
    for dtype in (*NARROW, torch.float32):
        x = torch.tensor([1.0, -2.0, 3.0], dtype=dtype)
        for number in (float("inf"), float("-inf"), float("nan")):

            def function(x: torch.Tensor, number: float = number) -> Any:
                return x.masked_fill(x > 0, number), x * number, torch.full_like(x, number)

            for got, want in zip(compiled(function, x.to("hpu")), function(x), strict=True):
                torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)
