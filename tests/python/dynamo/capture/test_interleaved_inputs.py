"""Inputs that lie between each other's elements: a write to one leaves the others alone."""

from __future__ import annotations

import pytest
import torch
from helpers import fresh_process

from habana_frameworks.torch.dynamo import report


def change(*parts):
    for number, part in enumerate(parts):
        part.mul_(number + 2).add_(number)
    return parts[0] + parts[-1]


def write_at(x, y):
    x[1] += 5
    y[y > 4] = 0
    return x * y


def copy_across(x, y):
    x.copy_(y)
    y.zero_()


def swap(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


# The function, and the parts of a matrix that it is called with.
CASES = {
    "every other element": (change, lambda m: (m.view(-1)[::2], m.view(-1)[1::2])),
    "halves of columns": (change, lambda m: (m[:, :3], m[:, 3:])),
    "chunks": (change, lambda m: m.chunk(3, -1)),
    "columns": (change, lambda m: m.unbind(1)),
    "steps in both dimensions": (change, lambda m: (m[::2, ::2], m[1::2, 1::2], m[::2, 1::2])),
    "by index and mask": (write_at, lambda m: (m[:, :3], m[:, 3:])),
    "from one to another": (copy_across, lambda m: (m[:, :3], m[:, 3:])),
    "swapped": (swap, lambda m: (m[:, :3], m[:, 3:])),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("name", CASES)
def test_writes_stay_apart(name, dtype):
    fresh_process()
    function, parts = CASES[name]
    compiled = torch.compile(function, backend="hpu_backend")
    want = torch.arange(24).reshape(4, 6).to(dtype)
    got = want.to("hpu")
    for _ in range(2):
        wanted, result = function(*parts(want)), compiled(*parts(got))
        torch.testing.assert_close(got.cpu(), want)
        if wanted is not None:
            torch.testing.assert_close(result.cpu(), wanted)
    assert "eager" not in {graph.origin for graph in report().graphs}


def test_an_optimizer_of_columns():
    def trained(device, wrap):
        whole = torch.linspace(-1, 1, 20).reshape(5, 4).to(device)
        parameters = [torch.nn.Parameter(column) for column in whole.unbind(1)]
        optimizer = torch.optim.SGD(parameters, lr=0.5, momentum=0.9)
        step = wrap(optimizer.step)
        for k in range(3):
            for i, p in enumerate(parameters):
                p.grad = torch.full((5,), 0.1 * (i + 1) + k, device=device)
            step()
        return whole.cpu()

    fresh_process()
    got = trained("hpu", lambda step: torch.compile(step, backend="hpu_backend"))
    torch.testing.assert_close(got, trained("cpu", lambda step: step))
