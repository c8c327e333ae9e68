"""Numbers of recorded calls that become inputs of their program."""

from __future__ import annotations

import pytest
import torch
from lazy_case import Counts, lazy_mode, mark_step
from torch import nn


@pytest.fixture(autouse=True)
def _in_lazy_mode():
    with lazy_mode():
        yield


@pytest.mark.parametrize(
    "numbers", [(1.0, 0.9, -0.1), (7.0, 0.5, -0.25), (7.0, 0.75, -0.5)], ids=str
)
def test_numbers_of_an_update_beside_a_range(numbers):
    """The bounds of arange are sizes, and are not counted among the numbers."""
    fill, factor, alpha = numbers

    def update(device):
        weight = torch.arange(1.0, 4.0, device=device, requires_grad=True)
        state = torch.full_like(weight, fill)
        with torch.no_grad():
            weight.mul_(factor)
            weight.add_(state, alpha=alpha)
        if device == "hpu":
            mark_step()
        return weight.detach().cpu(), state.detach().cpu()

    torch.testing.assert_close(update("hpu"), update("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, number: x + number,
        lambda x, number: x - number,
        lambda x, number: x * number,
        lambda x, number: x / number,
        lambda x, number: number - x,
        lambda x, number: x.clone().add_(number),
        lambda x, number: x.clone().div_(number),
        lambda x, number: x.add(x, alpha=number),
        lambda x, number: x.sub(x, alpha=number),
        lambda x, number: x.addcmul(x, x, value=number),
        lambda x, number: x.addcdiv(x, x, value=number),
        lambda x, number: torch.full_like(x, number),
    ],
    ids=[
        *("add", "sub", "mul", "div", "number - x", "add_", "div_", "add of alpha"),
        *("sub of alpha", "addcmul", "addcdiv", "full"),
    ],
)
def test_the_second_value_of_a_number_makes_it_an_input(function, dtype):
    """The calculation is the same as with the number in the program: in f32, rounded once."""
    x = torch.tensor([1.5, -2.25, 3.0], dtype=dtype)
    given = x.to("hpu")
    counts = Counts()
    for number in (0.3, 1.7, -2.6, 5.1):
        result = function(given, number)
        mark_step()
        wanted = function(x.float(), number).to(dtype)
        torch.testing.assert_close(result.cpu(), wanted)
    assert (counts.runs, counts.compilations, counts.runs_by_call) == (4, 2, 0)


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_one_mark_step_for_a_whole_step(optimizer):
    def train(device):
        weight = nn.Parameter(torch.arange(1.0, 6.0, device=device))
        updates = optimizer([weight], lr=0.1)
        for _ in range(4):
            updates.zero_grad()
            (weight * 3).mean().backward()
            updates.step()
            if device == "hpu":
                mark_step()
        return weight.detach().cpu()

    torch.testing.assert_close(train("hpu"), train("cpu"))


def test_norms_of_narrow_types_run_call_by_call():
    """After recordings that do not come again, calls run one by one, and kernels of the CPU give
    statistics of narrow inputs in a narrow type."""
    for size in range(9):
        (torch.randn(size + 2, device="hpu") * 2 + size).cpu()
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0)).half()
    wanted = x.double().requires_grad_()
    torch.nn.functional.layer_norm(wanted, (8,)).square().sum().backward()
    given = x.to("hpu").requires_grad_()
    torch.nn.functional.layer_norm(given, (8,)).square().sum().backward()
    torch.testing.assert_close(given.grad.cpu().double(), wanted.grad, atol=0.02, rtol=0.02)
    mean = torch.native_layer_norm(x.to("hpu"), [8], None, None, 1e-5)[1]
    torch.testing.assert_close(
        mean.cpu().double().flatten(), x.double().mean(-1).flatten(), atol=1e-3, rtol=1e-2
    )


def test_a_compiled_function_with_calls_that_no_recipe_holds():
    """Its calls are not recorded: the next recipe reads the memory of their results."""

    def positions(x):
        table = torch.zeros_like(x)
        angles = torch.arange(x.shape[0], device=x.device)[:, None] * 0.1
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        return x + table

    x = torch.ones(4, 6)
    compiled = torch.compile(positions, backend="hpu_backend")
    torch.testing.assert_close(compiled(x.to("hpu")).cpu(), positions(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, number: x * number,
        lambda x, number: number - x,
        lambda x, number: x / number,
        lambda x, number: x.clone().add_(number),
        lambda x, number: x.add(x, alpha=number),
        lambda x, number: torch.full_like(x, number),
    ],
    ids=["mul", "number - x", "div", "add_", "add of alpha", "full"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_integers_beside_floats_become_inputs(function, dtype):
    x = torch.tensor([1.5, -2.25, 3.0, 0.5], dtype=dtype)
    given = x.to("hpu")
    counts = Counts()
    for number in (3, 2, -7, 11, 0 if dtype == torch.bfloat16 else 5):
        result = function(given, number)
        mark_step()
        wanted = function(x, number)
        assert result.dtype == wanted.dtype == dtype
        torch.testing.assert_close(result.cpu(), wanted)
    assert (counts.runs, counts.compilations, counts.runs_by_call) == (5, 2, 0)


def test_integers_beside_integers_stay_integers():
    """2**53 + 1 is no double."""
    given = torch.tensor([3, -4, 2**53]).to("hpu")
    for number in (1, 5, 2**53 + 1):
        result = given * number, given + number
        mark_step()
        assert result[0][:2].tolist() == [3 * number, -4 * number]
        assert result[1].tolist() == [3 + number, number - 4, 2**53 + number]


def test_numbers_that_no_program_takes_are_not_compiled_for_each_time():
    """The ninth value runs call by call; a value that comes again is compiled for."""
    x = torch.linspace(0, 4, 9)
    given = x.to("hpu")

    def run(numbers) -> tuple[int, int]:
        counts = Counts()
        for number in numbers:
            result = given.clamp(max=number)
            mark_step()
            assert torch.equal(result.cpu(), x.clamp(max=number))
        return counts.compilations, counts.runs_by_call

    first = [0.1 * i for i in range(1, 13)]
    assert run(first) == (8, 4)
    assert run(first) == (4, 0)
    assert run(first) == (0, 0)
    assert run([5 + 0.01 * i for i in range(60)]) == (8, 52)
