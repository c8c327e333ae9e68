#!/usr/bin/env python3
"""First output of a fresh process: from a stored start, warm, and with Inductor warm.

Every figure comes from a process of its own; contenders alternate within each round, after one
process each that is not timed and fills the caches. The time runs from `torch.compile` to the first
output; the model is there before, and what has to be imported: torch._dynamo, its list of backends
and its minifier (torch.compile imports both for any backend), and what Inductor compiles with.
Raw results go to benchmarks/results/start.json, a table for docs/benchmarks.md to standard output.
All times are CPU times of the emulated device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from cases import CASES, DEPTH_CASES, Case
from models import outputs_of
from tables import number, table

RESULTS = Path(__file__).resolve().parent / "results/start.json"
CONTENDERS = ("start", "warm", "inductor warm")
Runs = dict[str, dict[str, list[dict[str, Any]]]]


MODELS: dict[str, Callable[[torch.dtype], Case]] = {
    "bert-base": CASES["bert-base"],
    "gpt2": CASES["gpt2"],
    "resnet50": CASES["resnet50"],
    "llama": CASES["llama prefill"],
    "swin": CASES["swin"],
    "mobilenetv2": CASES["mobilenetv2"],
}
# These show how the cost of a start grows as a model deepens.
DEPTHS = ("bert 12 layers", "bert 48 layers")
ALL = {**MODELS, **{name: DEPTH_CASES[name] for name in DEPTHS}}


def first_output(contender: str, name: str) -> dict[str, Any]:
    """Measures in this process. Raises SystemExit where the contender did not do what its name says
    once its caches are filled; the first process reports that with "filled": false."""
    import torch._dynamo.repro.after_dynamo

    torch._dynamo.list_backends()
    case = ALL[name](torch.float32)
    if contender == "inductor warm":
        import torch._inductor.compile_fx

        arguments: dict[str, Any] = {"backend": "inductor"}
    else:
        import habana_frameworks.torch.dynamo.compile_backend.backends  # noqa: F401

        case.model.to("hpu")
        case = Case(case.model, {n: v.to("hpu") for n, v in case.inputs.items()})
        options = {"start_without_tracing": contender == "start"}
        arguments = {"backend": "hpu_backend", "options": options}
    with torch.no_grad():
        started, processor = time.perf_counter(), time.process_time()
        result = torch.compile(case.model, **arguments)(**case.inputs)
        outputs = [output.cpu() for output in outputs_of(result)]
        figures = {
            "first_s": time.perf_counter() - started,
            "processor_s": time.process_time() - processor,
        }
    assert outputs
    return figures | _what_happened(contender)


def _what_happened(contender: str) -> dict[str, Any]:
    from torch._dynamo.utils import counters

    if contender == "inductor warm":
        misses = counters["inductor"]["fxgraph_cache_miss"]
        return {"filled": misses == 0, "frames": counters["stats"]["unique_graphs"]}
    from habana_frameworks.torch.dynamo import report
    from habana_frameworks.torch.dynamo.start import journal

    outcomes = journal.outcomes()
    traced = [outcome.line() for outcome in outcomes if outcome.reason]
    filled = report().compilations == 0 and (contender != "start" or not traced)
    return {"filled": filled, "frames": len(report().graphs), "traced": traced}


def in_a_process(contender: str, name: str, cache: Path, *, filling: bool) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--one", contender, "--cases", name],
        env=os.environ
        | {"HPU_CACHE_DIR": str(cache / "hpu"), "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor")}
        | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0" if contender == "inductor warm" else "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{contender} on {name}: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not filling and not figures["filled"]:
        raise SystemExit(f"{contender} on {name} was not from its caches: {figures}")
    return figures


def measure(names: list[str], rounds: int) -> Runs:
    results: Runs = {}
    with tempfile.TemporaryDirectory(prefix="hpu-bench-", ignore_cleanup_errors=True) as folder:
        for name in names:
            for contender in CONTENDERS:
                in_a_process(contender, name, Path(folder), filling=True)
            results[name] = {contender: [] for contender in CONTENDERS}
            for turn in range(rounds):
                for contender in CONTENDERS:
                    took = in_a_process(contender, name, Path(folder), filling=False)
                    results[name][contender].append(took)
                    text = f"{name}, round {turn + 1}, {contender}: {took['first_s']:.2f} s"
                    print(text, file=sys.stderr, flush=True)
    return results


def lines(results: Runs) -> list[str]:
    """The medians in seconds and their ratios; the two depths as one ratio."""
    rows = []
    middle = {
        name: {c: statistics.median(run["first_s"] for run in runs[c]) for c in CONTENDERS}
        for name, runs in results.items()
    }
    for name, seconds in middle.items():
        start, warm, inductor = (seconds[c] for c in CONTENDERS)
        cells = [number(v) for v in (start, warm, inductor, warm / start, inductor / start)]
        rows.append([name, *cells])
    header = ["model", "start s", "warm s", "Inductor warm s", "warm / start", "Inductor / start"]
    made = table(header, rows)
    if all(name in middle for name in DEPTHS):
        growth = middle[DEPTHS[1]]["start"] / middle[DEPTHS[0]]["start"]
        made += ["", f"A start of 48 layers takes {growth:.2f} times one of 12."]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", default=",".join(ALL), help="names, with commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.cases.split(",")
    if options.one:
        print(json.dumps(first_output(options.one, names[0])))
        return
    results = measure(names, options.rounds)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"rounds": options.rounds, "runs": results}))
    print("\n".join(lines(results)))


if __name__ == "__main__":
    main()
