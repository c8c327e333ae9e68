"""Powers and matrix products of integers in recipes: they wrap around like PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from eager_case import place_on_cpu

BASES = [-128, -7, -3, -2, -1, 0, 1, 2, 3, 11, 127]
EXPONENTS = [-65, -2, -1, 0, 1, 2, 3, 6, 31, 62, 63, 64, 65, 127]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]

CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "tensor": torch.pow,
    "two": lambda _, exponent: 2**exponent,
    "three": lambda _, exponent: 3**exponent,
    "minus one": lambda _, exponent: (-1) ** exponent,
    "nine": lambda base, _: base**9,
    "63": lambda base, _: base**63,
    "mm": lambda base, exponent: base.T @ exponent,
    "addmm": lambda base, exponent: torch.addmm(exponent, base, exponent.T @ base, alpha=3),
    "bmm": lambda base, exponent: torch.bmm(base[:, None], exponent[:, :, None]),
    "mv": lambda base, exponent: base @ exponent[0],
    "dot": lambda base, exponent: torch.dot(base[0], exponent[0]),
    "linear": lambda base, exponent: F.linear(base, exponent, exponent[:, 0]),
    "einsum": lambda base, exponent: torch.einsum("bk,bk->b", base, exponent),
}


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of a base and an exponent. The numbers that `dtype` does not have wrap around."""
    pair = torch.meshgrid(torch.tensor(BASES), torch.tensor(EXPONENTS), indexing="ij")
    return pair[0].to(dtype), pair[1].to(dtype)


# A number outside of the tensor's type, as -1 beside u8, is the CPU kernel's to judge.
CASES = [(n, t) for n in CALLS for t in INTEGERS if (n, t) != ("minus one", torch.uint8)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_in_recipes(name: str, dtype: torch.dtype) -> None:
    base, exponent = operands(dtype)
    if name == "addmm":
        base, exponent = base[:, :11].contiguous(), exponent[:, :11].contiguous()
    expected = CALLS[name](base, exponent)
    with place_on_cpu("none"):
        found = CALLS[name](base.to("hpu"), exponent.to("hpu")).cpu()
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)
