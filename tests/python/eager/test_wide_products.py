"""torch.matmul may store its sums in a wider type than that of its operands."""

from __future__ import annotations

import pytest
import torch
from eager_case import place_on_cpu
from lazy_case import lazy_mode
from torch import Tensor


def _scores(query: Tensor, key: Tensor, dtype: torch.dtype) -> Tensor:
    shape = (*query.shape[:-1], key.shape[-1])
    return torch.matmul(query, key, out=torch.empty(shape, dtype=dtype, device=query.device))


def _operands(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 3, 1, 64, generator=generator).to(dtype)
    key = torch.randn(2, 1, 64, 16, generator=generator).to(dtype)
    return query, key


def _check(found: Tensor, query: Tensor, key: Tensor) -> None:
    """The sums are not rounded to the operands' type: bf16 would be off by 2^-9 of them."""
    expected = query.double() @ key.double()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", ["eager", "inference", "recipes", "lazy", "compiled"])
def test_sums_stay_wide(way: str, dtype: torch.dtype) -> None:
    query, key = _operands(dtype)
    on_device = (query.to("hpu"), key.to("hpu"), torch.float32)
    if way == "eager":
        found = _scores(*on_device)
    elif way == "inference":
        with torch.inference_mode():
            found = _scores(*on_device)
    elif way == "recipes":
        with place_on_cpu("none"):
            found = _scores(*on_device)
    elif way == "lazy":
        with lazy_mode():
            found = _scores(*on_device).cpu()
    else:
        found = torch.compile(_scores, backend="hpu_backend", fullgraph=True)(*on_device)
    _check(found.cpu(), query, key)


def test_a_result_of_the_same_type_is_written_in_place() -> None:
    query, key = _operands(torch.bfloat16)
    out = torch.empty(2, 3, 1, 16, dtype=torch.bfloat16, device="hpu")
    found = torch.matmul(query.to("hpu"), key.to("hpu"), out=out)
    assert found.data_ptr() == out.data_ptr()
    torch.testing.assert_close(out.cpu(), query @ key, rtol=2**-7, atol=2**-7)


def test_f64_is_wider_still() -> None:
    query, key = _operands(torch.bfloat16)
    found = _scores(query.to("hpu"), key.to("hpu"), torch.float64)
    torch.testing.assert_close(found.cpu(), query.double() @ key.double())


def test_other_types_are_refused() -> None:
    query, key = _operands(torch.bfloat16)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        _scores(query.to("hpu"), key.to("hpu"), torch.int32)
