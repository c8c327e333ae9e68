#!/usr/bin/env python3
"""Training steps of one contender on one case, in a process of its own; prints "FIGURES {json}".

    training.py CONTENDER CASE [--dtype f32|bf16] [--seconds S] [--layers N]

A step is forward, loss, backward and AdamW, the device synchronised; model and `optimizer.step` are
compiled, each by itself, as a user writes it. bf16 is autocast. The case "adamw 110M" is the
optimizer alone, on BERT-base's parameters. Called by runner.py, which sets cache folders and order.
All times are CPU times of the emulated device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from figures import peak_live_bytes
from training_cases import FULL, TRAINING_CASES

BACKENDS = {
    "CPU eager": None,
    "dynamo only": "eager",
    "aot_eager": "aot_eager",
    "inductor": "inductor",
    "hpu cold": "hpu_backend",
    "hpu warm": "hpu_backend",
}
OPTIMIZER = "adamw 110M"
MIN_STEPS = 5
PEAK_ROUNDS = 3
# The bytes that AdamW reads (parameter, gradient, two moments) and writes (all but the gradient),
# in f32.
ADAMW_BYTES = 7 * 4

Step = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Training:
    """A whole step, which returns its loss, and the tensors that live between steps."""

    device: str
    step: Step
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    inputs: dict[str, torch.Tensor]

    def state_bytes(self) -> int:
        """The bytes of parameters, buffers, the optimizer's state and inputs, without gradients."""
        lasting = [*self.model.parameters(), *self.model.buffers(), *self.inputs.values()]
        for state in self.optimizer.state.values():
            lasting += [value for value in state.values() if isinstance(value, torch.Tensor)]
        storages = {s.data_ptr(): s.nbytes() for s in (t.untyped_storage() for t in lasting)}
        return sum(storages.values())


def _device(contender: str) -> str:
    if not contender.startswith("hpu"):
        return "cpu"
    import habana_frameworks.torch  # noqa: F401

    return "hpu"


def _compiled(contender: str, what: Any) -> Any:
    backend = BACKENDS[contender]
    return torch.compile(what, backend=backend) if backend else what


def _synchronize(device: str) -> None:
    if device == "hpu":
        torch.hpu.synchronize()


def make_training(contender: str, name: str, layers: int, bf16: bool) -> Training:
    device = _device(contender)
    model, inputs = TRAINING_CASES[name](layers)
    model.train().to(device)
    given = {name: value.to(device) for name, value in inputs.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    forward = _compiled(contender, model)
    update = _compiled(contender, optimizer.step)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            result = forward(**given)
        loss: torch.Tensor = getattr(result, "loss", result)
        loss.backward()
        update()
        _synchronize(device)
        return loss

    return Training(device, step, model, optimizer, given)


def peak_memory(training: Training) -> int:
    """The most bytes that live during a step besides those of `state_bytes`: gradients, the tensors
    that the backward keeps, and the memory that a program itself needs. On the CPU this is the
    memory that PyTorch's allocator gives, without the memory that libraries allocate for
    themselves; on the device it is everything."""
    training.optimizer.zero_grad()
    if training.device == "hpu":
        torch.hpu.reset_peak_memory_stats()
        training.step()
        return int(torch.hpu.max_memory_allocated()) - training.state_bytes()
    from probe import allocations

    return peak_live_bytes(allocations(training.step)[0], kept=True)


def make_update(contender: str, layers: int) -> tuple[Step, int]:
    """One call of the optimizer on the parameters of BERT, and their number."""
    device = _device(contender)
    model, _ = TRAINING_CASES["bert-base"](layers)
    model.to(device)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    update = _compiled(contender, optimizer.step)
    some = next(model.parameters())

    def step() -> torch.Tensor:
        update()
        _synchronize(device)
        return some.detach().flatten()[0]

    return step, sum(parameter.numel() for parameter in model.parameters())


def step_flops(name: str, layers: int) -> int:
    """The floating-point operations of the products and convolutions of forward and backward.
    Attention counts as the full products of its formula."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    model, inputs = TRAINING_CASES[name](layers)
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        result = model.train()(**inputs)
        getattr(result, "loss", result).backward()
    return int(counter.get_total_flops())


def memory_bandwidth() -> float:
    """The bytes per second that all cores read and write at most in an addition in place, where no
    line is read that is not also counted; the best of ten."""
    left, right = torch.ones(1 << 26), torch.ones(1 << 26)
    best = 0.0
    for _ in range(10):
        started = time.perf_counter()
        left.add_(right)
        best = max(best, 12 * left.numel() / (time.perf_counter() - started))
    return best


def measure(step: Step, seconds: float) -> dict[str, float]:
    """Milliseconds of the first step and of the median one; the loss after MIN_STEPS further steps,
    which contenders share up to rounding where there is no dropout."""
    started = time.perf_counter()
    step()
    first = time.perf_counter() - started
    figures = {"first_ms": first * 1e3}
    if seconds <= 0:
        return figures
    step()  # after it, the work that an optimizer does in its first step only is done
    times: list[float] = []
    while len(times) < MIN_STEPS or sum(times) < seconds:
        started = time.perf_counter()
        result = step()
        times.append(time.perf_counter() - started)
        if len(times) == MIN_STEPS:
            figures["loss"] = result.item()
    figures["steady_ms"] = statistics.median(times) * 1e3
    figures["steady_min_ms"] = min(times) * 1e3
    return figures


def of_hpu(contender: str) -> dict[str, float]:
    """The figures that only hpu_backend has. Raises SystemExit where the contender did not do what
    its name says."""
    from habana_frameworks.torch.dynamo import report

    summary = report()
    if contender == "hpu warm" and summary.compilations:
        raise SystemExit(f"hpu warm compiled {summary.compilations} graphs")
    return {
        "eager_segments": summary.eager_segments,
        "graphs": len(summary.graphs),
    }


def share_of_peak(step: Step, name: str, layers: int, bf16: bool) -> dict[str, float]:
    """The share of the multiply-add peak that whole steps reach; steps and peak are measured in
    turn."""
    from probe import machine_peak

    flops = step_flops(name, layers)
    shares, peaks = [], []
    for _ in range(PEAK_ROUNDS):
        now = machine_peak(len(os.sched_getaffinity(0)))
        peaks.append(now["bf16_gflops" if bf16 else "f32_gflops"])
        started = time.perf_counter()
        for _ in range(2):
            step()
        shares.append(flops * 2e-9 / (time.perf_counter() - started) / peaks[-1])
    return {
        "gflop": flops * 1e-9,
        "peak_gflops": statistics.median(peaks),
        "share": statistics.median(shares),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("contender", choices=BACKENDS)
    parser.add_argument("case", choices=[*TRAINING_CASES, OPTIMIZER])
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--seconds", type=float, default=5.0, help="of steady state; 0: none")
    parser.add_argument("--layers", type=int, default=FULL, help="2: all models short")
    parser.add_argument("--peak", action="store_true", help="also the share of the peak")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    bf16 = options.dtype == "bf16"
    figures: dict[str, Any] = {}
    if options.case == OPTIMIZER:
        step, parameters = make_update(options.contender, options.layers)
        figures = measure(step, options.seconds)
        moved = ADAMW_BYTES * parameters
        if "steady_ms" in figures:
            figures["bytes_per_second"] = moved / figures["steady_ms"] * 1e3
            figures["bandwidth"] = memory_bandwidth()
    else:
        training = make_training(options.contender, options.case, options.layers, bf16)
        step = training.step
        figures = measure(step, options.seconds)
        if options.seconds > 0:
            figures["peak_memory_bytes"] = peak_memory(training)
        if options.peak:
            figures |= share_of_peak(step, options.case, options.layers, bf16)
    if options.contender.startswith("hpu"):
        figures |= of_hpu(options.contender)
    print("FIGURES " + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
