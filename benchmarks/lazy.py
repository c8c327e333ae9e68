#!/usr/bin/env python3
"""Training scripts in lazy mode beside torch.compile and the CPU, side by side in one run.

    lazy.py [--rounds N] [--models bert-base,gpt2,mixtral,...] [--dtype f32|bf16] [--layers N]
            [--forward]

A script is a loop of forward, backward, AdamW and nothing else. Every figure comes from a process
of its own; contenders alternate within each round:

- cpu: PyTorch's CPU;
- compile: torch.compile of the model and of the optimizer's step, with hpu_backend;
- lazy: PT_HPU_LAZY_MODE=1, with mark_step() after backward and step.

With --forward only the models' forward runs, without gradients. Raw results go to
benchmarks/results/lazy.json, a table for docs/lazy.md to standard output. All times are CPU times
of the emulated device.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tables import number, table
from training_cases import FULL, TRAINING_CASES

RESULTS = Path(__file__).resolve().parent / "results/lazy.json"
CONTENDERS = ("cpu", "compile", "lazy")
# Steps before the figures: lazy mode compiles in the first four.
WARM, TIMED = 5, 4
Times = dict[str, float]


def step_of(contender: str, name: str, args: argparse.Namespace) -> Callable[[], Any]:
    import habana_frameworks.torch.core as htcore

    device = "cpu" if contender == "cpu" else "hpu"
    torch.manual_seed(0)
    model, batch = TRAINING_CASES[name](args.layers)
    model = model.to(device).train(not args.forward)
    batch = {key: value.to(device) for key, value in batch.items()}
    mark_step = htcore.mark_step if contender == "lazy" else lambda: None
    compiles = contender == "compile"
    run: Any = torch.compile(model, backend="hpu_backend") if compiles else model

    def loss_of() -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=args.dtype == "bf16"):
            out = run(**batch)
        loss: torch.Tensor = getattr(out, "loss", out)
        return loss

    def forward() -> None:
        with torch.no_grad():
            held = loss_of()  # lazy mode does not compute what nobody holds
        mark_step()
        del held

    if args.forward:
        return forward
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step_optimizer() -> None:
        optimizer.step()

    update: Any = (
        torch.compile(step_optimizer, backend="hpu_backend") if compiles else optimizer.step
    )

    def train() -> None:
        optimizer.zero_grad()
        loss_of().backward()
        mark_step()
        update()
        mark_step()

    return train


def measure(contender: str, name: str, args: argparse.Namespace) -> Times:
    """Measures in this process."""
    import habana_frameworks.torch as hpu

    step = step_of(contender, name, args)
    synchronize = (lambda: None) if contender == "cpu" else hpu.hpu.synchronize
    times = []
    for _ in range(WARM + TIMED):
        started = time.perf_counter()
        step()
        synchronize()
        times.append(time.perf_counter() - started)
    return {
        "first": times[0],
        "step": statistics.median(times[WARM:]),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_process(contender: str, name: str, args: argparse.Namespace, cache: str) -> Times:
    mode = "1" if contender == "lazy" else "0"
    command = [sys.executable, __file__, "--one", contender, name, "--dtype", args.dtype]
    command += ["--layers", str(args.layers), *(["--forward"] if args.forward else [])]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "HPU_CACHE_DIR": cache, "PT_HPU_LAZY_MODE": mode},
    )
    for line in done.stdout.splitlines():
        if line.startswith("TIMES "):
            times: Times = json.loads(line.removeprefix("TIMES "))
            return times
    raise SystemExit(f"{contender}, {name}: no times\n{done.stdout}\n{done.stderr}")


def rows(found: dict[str, dict[str, list[Times]]]) -> list[list[str]]:
    """One line per model: the CPU's time, and how many times as fast lazy mode is."""
    lines = []
    logs: dict[str, list[float]] = {"cpu": [], "compile": []}
    for name, by_contender in found.items():
        middle = {
            contender: {
                key: statistics.median(times[key] for times in runs)
                for key in ("first", "step", "peak_mb")
            }
            for contender, runs in by_contender.items()
        }
        line = [name, number(middle["cpu"]["step"] * 1e3)]
        for other, values in logs.items():
            ratio = middle[other]["step"] / middle["lazy"]["step"]
            values.append(math.log(ratio))
            line.append(f"{ratio:.2f}")
        line.append(f"{middle['lazy']['peak_mb'] / middle['cpu']['peak_mb']:.2f}")
        line.append(f"{middle['lazy']['first']:.1f} ({middle['compile']['first']:.1f})")
        lines.append(line)
    means = [f"{math.exp(statistics.mean(values)):.2f}" for values in logs.values()]
    return [*lines, ["geometric mean", "", *means, "", ""]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", default="bert-base,gpt2,resnet50,lstm")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--layers", type=int, default=FULL, help="2: all models short")
    parser.add_argument("--forward", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print("TIMES", json.dumps(measure(*args.one, args)))
        return
    found: dict[str, dict[str, list[Times]]] = {}
    with tempfile.TemporaryDirectory(prefix="hpu-lazy-") as cache:
        for name in args.models.split(","):
            runs = found.setdefault(name, {contender: [] for contender in CONTENDERS})
            for number_of_round in range(args.rounds):
                for contender in CONTENDERS:
                    print(f"{name}: round {number_of_round + 1}, {contender}", file=sys.stderr)
                    runs[contender].append(in_process(contender, name, args, cache))
        subprocess.run(
            [sys.executable, "-m", "habana_frameworks.torch.cli", "stop"],
            env={**os.environ, "HPU_CACHE_DIR": cache},
            stdout=subprocess.DEVNULL,
            check=False,
        )
    header = [
        f"{args.dtype}, {'forward' if args.forward else 'training step'}",
        "CPU eager, ms",
        "lazy, times as fast as CPU eager",
        "... as torch.compile",
        "peak memory of the process, share of CPU eager's",
        "first step, s (torch.compile's)",
    ]
    print("\n".join(table(header, rows(found))))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"load": os.getloadavg()[0], "results": found}))


if __name__ == "__main__":
    main()
