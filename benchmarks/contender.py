#!/usr/bin/env python3
"""One figure of the comparison, in a process of its own: one contender, one case.

Prints one line of JSON. Called by compare.py, which sets cache folders and order.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STARTED = time.perf_counter()

import torch  # noqa: E402
from cases import CASES, Case  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def _compiled(case: Case, **options: Any) -> Callable[[], Any]:
    compiled = torch.compile(case.model, **options)
    return lambda: compiled(**case.inputs)


def _inductor(case: Case, **config: bool) -> Callable[[], Any]:
    import torch._inductor.config as inductor

    for name, value in config.items():
        setattr(inductor, name, value)
    return _compiled(case, backend="inductor")


def _mega_cache(case: Case) -> Callable[[], Any]:
    """Inductor from artifacts that a process before this one saved, into an empty folder."""
    data = Path(os.environ["MEGA_CACHE_FILE"]).read_bytes()
    if torch.compiler.load_cache_artifacts(data) is None:
        raise SystemExit("the mega-cache artifacts were not accepted")
    return _inductor(case)


def _hpu(case: Case) -> Callable[[], Any]:
    import habana_frameworks.torch  # noqa: F401

    model = torch.compile(case.model.to("hpu"), backend="hpu_backend")
    inputs = {name: value.to("hpu") for name, value in case.inputs.items()}

    def call() -> Any:
        result = model(**inputs)
        torch.hpu.synchronize()
        return result

    return call


CONTENDERS: dict[str, Callable[[Case], Callable[[], Any]]] = {
    "CPU eager": lambda case: lambda: case.model(**case.inputs),
    "dynamo only": lambda case: _compiled(case, backend="eager"),
    "aot_eager": lambda case: _compiled(case, backend="aot_eager"),
    "inductor": _inductor,
    "inductor freezing": lambda case: _inductor(case, freezing=True),
    "inductor max-autotune": lambda case: _inductor(case, max_autotune=True),
    "inductor warm": _inductor,
    "inductor mega-cache": _mega_cache,
    "openvino": lambda case: _compiled(case, backend="openvino"),
    "hpu cold": _hpu,
    "hpu warm": _hpu,
}


def measure(call: Callable[[], Any], seconds: float) -> list[float]:
    """Milliseconds of single calls."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1e3)
        if len(times) >= 20_000:
            break
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--save-mega-cache", metavar="FILE")
    arguments = parser.parse_args()
    case = CASES[arguments.case](DTYPES[arguments.dtype])
    ready = time.perf_counter()
    with torch.inference_mode():
        call = CONTENDERS[arguments.contender](case)
        call()
        first = time.perf_counter()
        times = measure(call, arguments.seconds)
    figures: dict[str, Any] = {
        "setup_ms": (ready - STARTED) * 1e3,
        "first_ms": (first - ready) * 1e3,
        "steady_ms": statistics.median(times),
        "steady_min_ms": min(times),
        "calls": len(times),
    }
    if arguments.contender.startswith("hpu"):
        from habana_frameworks.torch.dynamo import report

        summary = report()
        figures["graphs"] = len(summary.graphs)
        figures["compilations"] = summary.compilations
        figures["eager_segments"] = summary.eager_segments
        graphs = summary.graphs
        for name in ("key_ms", "fetch_ms", "capture_ms", "compile_ms", "load_ms"):
            figures[name] = sum(getattr(graph, name) for graph in graphs)
    if arguments.save_mega_cache:
        artifacts = torch.compiler.save_cache_artifacts()
        if artifacts is not None:
            Path(arguments.save_mega_cache).write_bytes(artifacts[0])
    print("FIGURES " + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
