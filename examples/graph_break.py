#!/usr/bin/env python3
"""A function that Dynamo cannot capture as one graph: both halves run as recipes."""

from __future__ import annotations

import torch

import habana_frameworks.torch  # noqa: F401  (brings the hpu device)
from habana_frameworks.torch.dynamo import report


def normalise_if_large(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ w)
    if y.sum() > 0:  # the value decides: the graph ends here and another begins
        y = y / y.norm()
    return y.softmax(-1)


def main() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16, 4)
    compiled = torch.compile(normalise_if_large, backend="hpu_backend")
    with torch.no_grad():
        got = compiled(x.to("hpu"), w.to("hpu"))
        torch.testing.assert_close(got.cpu(), normalise_if_large(x, w))
    print(report())
    print("equals CPU eager")


if __name__ == "__main__":
    main()
