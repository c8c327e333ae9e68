"""Shared code of the tests of training graphs: inputs, compiling, comparing with CPU eager."""

from __future__ import annotations

import torch
from helpers import fresh_process

from habana_frameworks.torch.dynamo import report


def compiled(function, **options):
    fresh_process()
    return torch.compile(function, backend="hpu_backend", options=options or None)


def matrix(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(sizes or (4, 4), generator=torch.Generator().manual_seed(seed))


def by_sizes(*sizes: int) -> torch.Tensor:
    """Numbers that differ from one list of sizes to another."""
    torch.manual_seed(sum(sizes))
    return torch.randn(sizes)


def leaf(*sizes: int, seed: int = 0) -> torch.Tensor:
    return matrix(*sizes, seed=seed).to("hpu").requires_grad_()


def only_graph():
    """The one graph since fresh_process(), which was compiled without eager nodes."""
    (graph,) = report().graphs
    assert (graph.origin == "eager", graph.reason, graph.eager_nodes) == (False, "", 0)
    return graph


def assert_close(ours, theirs, rtol=1e-5, atol=1e-6):
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=rtol, atol=atol)
