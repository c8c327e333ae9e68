"""Measures the cost of one call of a compiled model beside Dynamo's guards.

Usage: python benchmarks/call_overhead.py

The layers are so small that their kernels hardly count. The time of a call and the wait for it,
less the guards of the same model compiled by a backend that does nothing, is an upper bound of the
cost of one program and one launch. The figure is the least of many batches. `launch_overhead` (C++)
measures the launch alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

import habana_frameworks.torch  # noqa: F401  registers the device

WIDTH = 8
BATCHES = 300
CALLS_PER_BATCH = 20


class Layers(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


def idle_backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable:
    result = [torch.zeros(16, WIDTH, device="hpu")]
    return lambda *args: result


def least_us(call: Callable[[], object]) -> float:
    least = float("inf")
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(CALLS_PER_BATCH):
            call()
        least = min(least, (time.perf_counter() - start) / CALLS_PER_BATCH)
    torch.hpu.synchronize()
    return least * 1e6


@torch.no_grad()
def main() -> None:
    print("layers  inputs  call and wait  call  guards  beside guards (us)")
    for count in (4, 96):
        x = torch.randn(16, WIDTH, device="hpu")
        compiled = torch.compile(Layers(count).eval().to("hpu"), backend="hpu_backend")
        idle = torch.compile(Layers(count).eval().to("hpu"), backend=idle_backend)
        compiled(x)
        idle(x)

        def wait(compiled: Callable = compiled, x: torch.Tensor = x) -> None:
            compiled(x)
            torch.hpu.synchronize()

        waited = least_us(wait)
        called = least_us(lambda compiled=compiled, x=x: compiled(x))
        guards = least_us(lambda idle=idle, x=x: idle(x))
        print(
            f"{count:6} {2 * count + 1:7} {waited:14.1f} {called:5.1f} {guards:7.1f} "
            f"{waited - guards:14.1f}"
        )


if __name__ == "__main__":
    main()
