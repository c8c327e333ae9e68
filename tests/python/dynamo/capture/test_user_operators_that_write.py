"""Operators of user code that write to their arguments are steps of a program, and the rest of the
graph is compiled."""

from __future__ import annotations

import pytest
import torch
from helpers import fresh_process
from torch import Tensor

from habana_frameworks.torch.dynamo import report

NAMESPACE = "test_user_operators_that_write"


def _defined(name: str, written: tuple[str, ...], function):
    return torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=written)(function)


def _fill(out: Tensor, x: Tensor, scale: float) -> None:
    out.copy_(x.cos() * scale)


def _add_rows(x: Tensor, counts: Tensor) -> Tensor:
    x.add_(1)
    counts.add_(x.shape[0])
    return x.sum(1)


def _scale_all(tensors: list[Tensor], optional: Tensor | None) -> None:
    for tensor in tensors:
        tensor.mul_(3)
    if optional is not None:
        optional.sub_(5)


fill = _defined("fill", ("out",), _fill)
add_rows = _defined("add_rows", ("x", "counts"), _add_rows)
scale_all = _defined("scale_all", ("tensors", "optional"), _scale_all)


@add_rows.register_fake
def _(x: Tensor, counts: Tensor) -> Tensor:
    return x.new_empty(x.shape[0])


def into_new_memory(x, counts):
    out = torch.empty_like(x)
    fill(out, x, 2.0)
    return out + x


def into_an_input(x, counts):
    before = x * 2
    rows = add_rows(x, counts)
    return before, rows, x + 1


def into_a_view(x, counts):
    y = x.exp()
    fill(y[1:], y[:-1] * 2, 0.5)
    fill(y.t()[0], y[:, 1] * 1, 0.25)
    return y.sum(0), y.t()


def lists(x, counts):
    a, b, c = x + 1, x - 1, x * 1
    scale_all([a, b], c)
    scale_all([c], None)
    return a, b, c


def twice(x, counts):
    add_rows(x, counts)
    add_rows(x, counts)
    return x * counts


def after_a_read(x, counts):
    y = x.clone()
    total = y.sum()
    scale_all([y], None)
    return total, y, y.sum() - total


CASES = [into_new_memory, into_an_input, into_a_view, lists, twice, after_a_read]


def _given() -> tuple[Tensor, Tensor]:
    return torch.arange(12.0).reshape(4, 3) / 5, torch.tensor([1, 2, 3])


def _results(function, device: str) -> list[Tensor]:
    x, counts = (tensor.to(device) for tensor in _given())
    results = function(x, counts)
    results = results if isinstance(results, tuple) else (results,)
    return [*(result.cpu() for result in results), x.cpu(), counts.cpu()]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", CASES)
def test_graphs_with_operators_that_write(function, dynamic):
    fresh_process()
    compiled = torch.compile(function, backend="hpu_backend", dynamic=dynamic)
    wanted = _results(function, "cpu")
    for _ in range(2):
        for ours, theirs in zip(_results(compiled, "hpu"), wanted, strict=True):
            torch.testing.assert_close(ours, theirs)
    (record,) = report().graphs
    assert record.reason == ""
    assert record.eager_nodes > 0
    assert record.recipes > 0


def test_a_gradient_goes_around_an_operator_that_writes():
    def function(x, counts):
        out = torch.empty_like(x)
        fill(out, x.detach(), 2.0)
        return (out * x).sum()

    fresh_process()
    x = _given()[0].to("hpu").requires_grad_()
    torch.compile(function, backend="hpu_backend")(x, None).backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * _given()[0].cos())
    assert [record.reason for record in report().graphs] == [""]


def test_arguments_that_share_memory_run_eagerly():
    def function(x, counts):
        y = x + 1
        scale_all([y[:2], y[1:3]], None)
        return y

    fresh_process()
    compiled = torch.compile(function, backend="hpu_backend")
    got = _results(compiled, "hpu")
    for ours, theirs in zip(got, _results(function, "cpu"), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert "shares memory with another" in report().graphs[0].reason
