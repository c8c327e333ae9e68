"""Checks in compiled graphs stay: what is wrong raises as on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from habana_frameworks.torch.dynamo import report

Function = Callable[[torch.Tensor], torch.Tensor]

LINEAR_ALGEBRA: dict[str, Function] = {
    "inv": lambda a: torch.linalg.inv(a * 2) + 1,
    "solve": lambda a: torch.linalg.solve(a, a + 1) * 2,
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT) + 1,
    "batched inv": lambda a: torch.linalg.inv(torch.stack([a, a + torch.eye(3).to(a)])),
}
GOOD = torch.tensor([[2.0, 0.5, 0.0], [0.25, 1.5, 0.5], [0.0, 0.5, 3.0]])


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("name", LINEAR_ALGEBRA)
def test_a_singular_matrix(name: str) -> None:
    function = LINEAR_ALGEBRA[name]
    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    torch.testing.assert_close(compiled(GOOD.to("hpu")).cpu(), function(GOOD))
    record = report().graphs[-1]
    assert record.origin in ("compiled", "store") and record.recipes > 0, "the rest is in recipes"
    with pytest.raises(torch.linalg.LinAlgError) as wanted:
        function(torch.zeros(3, 3))
    with pytest.raises(torch.linalg.LinAlgError) as found:
        compiled(torch.zeros(3, 3, device="hpu"))
    assert str(found.value) == str(wanted.value)
    torch.testing.assert_close(compiled(GOOD.to("hpu")).cpu(), function(GOOD))


@pytest.mark.parametrize("name", LINEAR_ALGEBRA)
def test_a_singular_matrix_in_training(name: str) -> None:
    function = LINEAR_ALGEBRA[name]
    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    given = GOOD.to("hpu").requires_grad_()
    wanted = GOOD.clone().requires_grad_()
    compiled(given).square().sum().backward()
    function(wanted).square().sum().backward()
    torch.testing.assert_close(given.grad.cpu(), wanted.grad, rtol=1e-4, atol=1e-4)
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(torch.zeros(3, 3, device="hpu", requires_grad=True))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_an_assertion_about_elements(training: bool, in_place: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if in_place:
            y.add_(1)
        torch._assert_async(y.sum() > 0, "the sum must be positive")
        torch._assert_async(y[0] != 7)
        return y * x

    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    good = torch.tensor([1.0, 2.0], device="hpu", requires_grad=training)
    assert torch.equal(compiled(good).cpu(), function(good.detach().cpu()))
    bad = torch.tensor([-1.0, -2.0], device="hpu", requires_grad=training)
    with pytest.raises(RuntimeError, match="the sum must be positive"):
        compiled(bad)
    seven = torch.tensor([3.0 if in_place else 3.5, 1.0], device="hpu", requires_grad=training)
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value"):
        compiled(seven)
