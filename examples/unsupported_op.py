#!/usr/bin/env python3
"""A graph with an op that no recipe can hold: it runs eagerly between two recipes and is logged."""

from __future__ import annotations

import torch

import habana_frameworks.torch  # noqa: F401  (brings the hpu device)
from habana_frameworks.torch.dynamo import report


def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ w) + 0.5
    y = torch.lgamma(y)  # no recipe can hold it
    return (y * 2).sum(-1)


def main() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16, 4)
    compiled = torch.compile(function, backend="hpu_backend")
    with torch.no_grad():
        got = compiled(x.to("hpu"), w.to("hpu"))
        torch.testing.assert_close(got.cpu(), function(x, w), rtol=1e-4, atol=1e-4)
    summary = report()
    print(summary)
    if summary.eager_segments == 0:
        raise SystemExit("expected an eager segment")
    print("equals CPU eager")


if __name__ == "__main__":
    main()
