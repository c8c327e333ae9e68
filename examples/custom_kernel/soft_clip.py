#!/usr/bin/env python3
"""An operator with a kernel of one's own, and its gradient, in eager mode and in a compiled graph.

    python setup.py build_ext --inplace
    GC_KERNEL_PATH=$PWD/libsoft_clip_kernels.so python soft_clip.py

The first argument, if there is one, is the folder of the two libraries.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

import habana_frameworks.torch.core  # noqa: F401  (the device and the interface for operators)

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent


def load_operators(folder: Path) -> None:
    (library,) = folder.glob("*soft_clip_ops*.so")
    torch.ops.load_library(str(library))


class SoftClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, limit: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.limit = limit
        result: torch.Tensor = torch.ops.example.soft_clip(x, limit)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return torch.ops.example.soft_clip_backward(gradient, x, ctx.limit), None


def clipped_sum(x: torch.Tensor) -> torch.Tensor:
    clipped: torch.Tensor = SoftClip.apply(2 * x, 1.5)  # type: ignore[no-untyped-call]
    return clipped.sin().sum()


def expected_sum(x: torch.Tensor) -> torch.Tensor:
    return (1.5 * (2 * x) / (1.5 + (2 * x).abs())).sin().sum()


def main() -> None:
    load_operators(FOLDER)
    values = torch.linspace(-3, 4, 24).reshape(4, 6)
    reference = values.clone().requires_grad_()
    expected_sum(reference).backward()
    for way, function in (
        ("eager", clipped_sum),
        ("compiled", torch.compile(clipped_sum, backend="hpu_backend")),
    ):
        x = values.to("hpu").requires_grad_()
        result = function(x)
        result.backward()
        assert x.grad is not None
        assert reference.grad is not None
        torch.testing.assert_close(result.detach().cpu(), expected_sum(values))
        torch.testing.assert_close(x.grad.cpu(), reference.grad)
        print(f"{way}: {result.item():.6f}, as PyTorch's own operators")


if __name__ == "__main__":
    main()
