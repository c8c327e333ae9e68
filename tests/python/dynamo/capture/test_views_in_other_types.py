"""Inputs that a graph sees in another element type: results lie in the memory of the input, as they
do in eager mode, and writes through them arrive there."""

from __future__ import annotations

import pytest
import torch
from helpers import fresh_process


def written(dtype):
    def function(x):
        seen = x.detach().view(dtype)
        seen.add_(1)
        return seen

    return function


FUNCTIONS = {
    "written as bytes": written(torch.uint8),
    "written as integers": written(torch.int32),
    "a part, written": lambda x: written(torch.int32)(x)[1:],
    "whole": lambda x: x.view(torch.int32),
    "a part as bytes": lambda x: x.view(torch.uint8)[1:],
    "a part": lambda x: x.view(torch.int32)[1:],
    "of a part": lambda x: x[1:].view(torch.int32),
    "columns of a part": lambda x: x[1:].view(torch.uint8)[..., 1:],
    "two that overlap": lambda x: (x.view(torch.uint8)[1:], x.view(torch.uint8)[:2]),
}


def outcome(function, device, requires_grad):
    x = torch.ones(3, 2).to(device).requires_grad_(requires_grad)
    results = function(x)
    results = results if isinstance(results, tuple) else (results,)
    shared = [r.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for r in results]
    with torch.no_grad():
        for result in results:
            result.add_(1)
    return shared, [(r.dtype, r.tolist()) for r in results], x.tolist()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_lie_where_eagers_do(name, requires_grad):
    fresh_process()
    compiled = torch.compile(FUNCTIONS[name], backend="hpu_backend")
    wanted = outcome(FUNCTIONS[name], "cpu", requires_grad)
    assert outcome(compiled, "hpu", requires_grad) == wanted
