#!/usr/bin/env python3
"""How models scale over more cores than this machine has, simulated from measured task times.

./dev python benchmarks/scaling.py [--models NAME ...] [--types f32 bf16] [--picture FILE]

A process per model measures every task of its recipes on one thread (the best of some launches
each); task_graph.py runs them on 1 to 64 cores as the device's executor would. Two more processes
run the model on 1 and 2 threads; the difference to the simulation is its error. Results go to
benchmarks/results/scaling.json, tables to standard output. CPU times of the emulated device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from task_graph import BARRIER_NS, BARRIER_NS_PER_THREAD, KernelTasks, scale

RESULTS = Path(__file__).resolve().parent / "results/scaling.json"
MODELS = ("bert-base b8", "gpt2", "vit", "resnet50 b8", "resnet50")
CORES = (1, 2, 4, 8, 16, 32, 48, 64)
TARGET_CORES = 32
WORST_KERNELS = 6


def measure(name: str, dtype: str, tasks: bool, launches: int) -> list[dict[str, Any]]:
    """Measures in this process: the kernels of a call, each at its best, and the time between
    them."""
    import torch
    from cases import make_case

    from habana_frameworks.torch.utils import profiler
    from habana_frameworks.torch.utils.profiler.trace import Kernel

    case = make_case(name, {"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
    model = torch.compile(case.model.to("hpu"), backend="hpu_backend")
    inputs = {key: value.to("hpu") for key, value in case.inputs.items()}
    with torch.no_grad():
        for _ in range(2):
            model(**inputs)
        with profiler.profile(tasks) as profile:
            for _ in range(launches):
                model(**inputs)
                torch.hpu.synchronize()
    between: dict[str, int] = {}
    in_kernels: dict[tuple[str, int], int] = defaultdict(int)
    runs: dict[tuple[str, int], list[Kernel]] = defaultdict(list)
    for kernel in profile.kernels:
        in_kernels[kernel.recipe, kernel.work] += kernel.duration_ns
        if kernel.index >= 0:
            runs[kernel.recipe, kernel.index].append(kernel)
    for launch in profile.launches:
        gap = launch.duration_ns - in_kernels[launch.recipe, launch.work]
        between[launch.recipe] = min(gap, between.get(launch.recipe, gap))
    recipes = []
    for recipe, gap in between.items():
        kernels = []
        for (of, _), group in sorted(runs.items()):
            if of != recipe:
                continue
            first = group[0]
            kernels.append(
                {
                    "name": first.name,
                    "engine": first.engine,
                    "tasks": first.tasks,
                    "grain": first.grain,
                    "pieces": [
                        min(times) for times in zip(*(k.task_ns for k in group), strict=True)
                    ],
                }
            )
        cpu = min(launch.cpu_ns for launch in profile.launches if launch.recipe == recipe)
        recipes.append({"between_ns": gap, "cpu_ns": cpu, "kernels": kernels})
    return recipes


def in_process(name: str, dtype: str, tasks: bool, threads: int, launches: int) -> Any:
    command = [sys.executable, __file__, "--measure", name, "--types", dtype]
    command += ["--launches", str(launches), *(["--tasks"] if tasks else [])]
    environment = {**os.environ, "HPU_EMULATOR_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    for line in done.stdout.splitlines():
        if line.startswith("MEASURED "):
            return json.loads(line.removeprefix("MEASURED "))
    raise SystemExit(f"{name} {dtype} on {threads} threads: nothing was measured\n{done.stderr}")


def result_of(name: str, dtype: str, launches: int) -> dict[str, Any]:
    recipes = in_process(name, dtype, True, 1, launches)
    kernels = [
        KernelTasks(k["name"], k["engine"], k["tasks"], k["grain"], k["pieces"])
        for recipe in recipes
        for k in recipe["kernels"]
    ]
    between = sum(recipe["between_ns"] for recipe in recipes)
    by_cores = {n: scale(kernels, between, n) for n in CORES}
    # The CPU time of a thread is used, because other processes on the machine do not count in it,
    # and because a thread that waits for the others spins.
    measured = {
        n: sum(recipe["cpu_ns"] for recipe in in_process(name, dtype, False, n, launches)) / n
        for n in (1, 2)
        if n <= len(os.sched_getaffinity(0))
    }
    at = by_cores[TARGET_CORES]
    order = sorted(range(len(kernels)), key=lambda i: -at.lost[i])
    return {
        "kernels": len(kernels),
        "one_core_ms": by_cores[1].ns / 1e6,
        "between_ms": between / 1e6,
        "efficiency": {str(n): by_cores[n].efficiency for n in CORES},
        "measured_ms": {str(n): ns / 1e6 for n, ns in measured.items()},
        "error": {str(n): by_cores[n].ns / ns - 1 for n, ns in measured.items()},
        "worst": [
            {
                "kernel": kernels[i].name,
                "engine": kernels[i].engine,
                "tasks": kernels[i].tasks,
                "pieces": kernels[i].grains,
                "one_core_ms": kernels[i].total_ns / 1e6,
                "longest_piece_ms": max(kernels[i].pieces) / 1e6,
                "lost": at.lost[i],
            }
            for i in order[:WORST_KERNELS]
        ],
    }


def print_tables(results: dict[str, Any]) -> None:
    from tables import table

    rows = [["model", "1 core, ms", *(f"{n} cores" for n in CORES[1:]), "error 1 / 2 cores"]]
    for name, result in results.items():
        errors = " / ".join(f"{100 * error:+.1f} %" for error in result["error"].values())
        shares = [f"{100 * result['efficiency'][str(n)]:.0f} %" for n in CORES[1:]]
        rows.append([name, f"{result['one_core_ms']:.1f}", *shares, errors])
    print("\n".join(table(rows[0], rows[1:])))
    for name, result in results.items():
        print(f"\n{name}: thread time lost on {TARGET_CORES} cores, the most by")
        for worst in result["worst"]:
            print(
                f"  {100 * worst['lost']:5.1f} %  {worst['kernel'][:70]}: {worst['tasks']} tasks "
                f"in {worst['pieces']} pieces, {worst['one_core_ms']:.3f} ms on one core, longest "
                f"{worst['longest_piece_ms']:.3f}"
            )


def draw(results: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, result in results.items():
        axes.plot(CORES, [100 * result["efficiency"][str(n)] for n in CORES], "o-", label=name)
    axes.axhline(80, linestyle=":", color="grey")
    axes.set(xlabel="cores", ylabel="efficiency, %", ylim=(0, 105), xscale="log", xticks=CORES)
    axes.set_xticklabels([str(n) for n in CORES])
    axes.set_title("Simulated from measured task times of the emulated device")
    axes.legend()
    figure.savefig(path, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--types", nargs="+", default=["f32"], choices=("f32", "bf16"))
    parser.add_argument("--launches", type=int, default=12, help="whose best times count")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, help="PNG or SVG, needs matplotlib")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--tasks", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measured = measure(
            arguments.measure, arguments.types[0], arguments.tasks, arguments.launches
        )
        print("MEASURED", json.dumps(measured))
        return
    results = {}
    for name in arguments.models:
        for dtype in arguments.types:
            label = name if dtype == "f32" else f"{name} {dtype}"
            results[label] = result_of(name, dtype, arguments.launches)
            print(f"{label} is measured", file=sys.stderr)
    about = {
        "barrier_ns": BARRIER_NS,
        "barrier_ns_per_thread": BARRIER_NS_PER_THREAD,
        "launches": arguments.launches,
    }
    arguments.results.write_text(json.dumps({"about": about, "models": results}, indent=1) + "\n")
    print_tables(results)
    if arguments.picture:
        draw(results, arguments.picture)


if __name__ == "__main__":
    main()
