"""Functions for the tests of the fallback chain, whose service is in memory (fixture `store`)."""

from __future__ import annotations

import torch

from habana_frameworks.torch.dynamo import hook, report
from habana_frameworks.torch.dynamo.programs.service import service
from habana_frameworks.torch.dynamo.records import records


def new_process():
    """Forgets everything that a process remembers; the store stays."""
    torch._dynamo.reset()
    service.reset()
    records.reset()


def compiled(function, **options):
    return torch.compile(function, backend=hook.hpu_backend, options=options or None)


def run(function, *inputs, **options):
    with torch.no_grad():
        got = compiled(function, **options)(*inputs)
        want = function(*inputs)
    torch.testing.assert_close(got, want)
    return report()


def affine(x, w):
    return torch.relu(x @ w) + 1


X, W = torch.randn(4, 6), torch.randn(6, 5)
