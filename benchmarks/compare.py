#!/usr/bin/env python3
"""Side-by-side comparison of hpu_backend with PyTorch's own ways to run a model on this CPU.

Every figure comes from a process of its own; contenders alternate within each round. Writes raw
results to benchmarks/results/, and a table to docs/benchmarks.md and README.md between the markers
<!-- benchmarks --> and <!-- /benchmarks -->.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
MARKERS = ("<!-- benchmarks -->", "<!-- /benchmarks -->")
QUICK_CASES = ("bert-base", "gpt2", "llama prefill", "vit", "resnet50")
QUICK_CONTENDERS = ("CPU eager", "dynamo only", "aot_eager", "inductor", "hpu cold", "hpu warm")
CONTENDERS = (
    "CPU eager",
    "dynamo only",
    "aot_eager",
    "inductor",
    "inductor freezing",
    "inductor max-autotune",
    "inductor warm",
    "inductor mega-cache",
    "openvino",
    "hpu cold",
    "hpu warm",
)
STEADY = ("CPU eager", "inductor", "inductor freezing", "inductor max-autotune", "openvino")

Results = dict[str, dict[str, list[dict[str, Any]]]]  # case -> contender -> runs


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpu = platform.processor()
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            cpu = value.strip()
        elif name.strip() == "flags":
            flags = set(value.split())
    level = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE"
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "vector": level + (", AMX" if "amx_tile" in flags else ""),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


class Folders:
    """Cache folders of one case: what is cold gets a new one, what is warm keeps its own."""

    def __init__(self, base: Path, case: str) -> None:
        self.base = base / case.replace(" ", "-")
        self.base.mkdir(parents=True, exist_ok=True)

    def fresh(self, kind: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=kind + "-", dir=self.base))

    def kept(self, kind: str) -> Path:
        folder = self.base / kind
        folder.mkdir(exist_ok=True)
        return folder


def run_process(
    contender: str, case: str, dtype: str, seconds: float, env: dict[str, str], *extra: str
) -> dict[str, Any]:
    """Figures of one process, or {"error": its last line}."""
    command = [sys.executable, str(HERE / "contender.py"), contender, case]
    command += ["--dtype", dtype, "--seconds", str(seconds), *extra]
    if not contender.startswith("hpu"):
        env = {**env, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": "more than 1800 s"}
    for line in done.stdout.splitlines():
        if line.startswith("FIGURES "):
            figures: dict[str, Any] = json.loads(line.removeprefix("FIGURES "))
            return figures
    lines = (done.stderr or done.stdout).strip().splitlines()
    return {"error": lines[-1] if lines else f"exit code {done.returncode}"}


def stop_daemon(cache: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "habana_frameworks.torch.cli", "stop"],
        env={**os.environ, "HPU_CACHE_DIR": str(cache)},
        capture_output=True,
        check=False,
    )


def run_contender(
    contender: str, case: str, dtype: str, seconds: float, folders: Folders
) -> dict[str, Any]:
    """One figure with the caches that the contender's name promises."""
    if contender == "hpu cold":
        cache = folders.fresh("hpu")
        try:
            return run_process(contender, case, dtype, seconds, {"HPU_CACHE_DIR": str(cache)})
        finally:
            stop_daemon(cache)
    if contender == "hpu warm":
        cache = folders.kept("hpu-warm")
        env = {"HPU_CACHE_DIR": str(cache)}
        if not any(cache.iterdir()):
            run_process(contender, case, dtype, 0, env)
        return run_process(contender, case, dtype, seconds, env)
    if contender in ("inductor warm", "inductor mega-cache"):
        kept = folders.kept("inductor-warm")
        artifacts = kept / "mega-cache"
        env = {"TORCHINDUCTOR_CACHE_DIR": str(kept)}
        if not artifacts.exists():
            save = ("--save-mega-cache", str(artifacts))
            run_process("inductor warm", case, dtype, 0, env, *save)
        if contender == "inductor warm":
            return run_process(contender, case, dtype, seconds, env)
        env = {
            "TORCHINDUCTOR_CACHE_DIR": str(folders.fresh("mega")),
            "MEGA_CACHE_FILE": str(artifacts),
        }
        return run_process(contender, case, dtype, seconds, env)
    env = {"TORCHINDUCTOR_CACHE_DIR": str(folders.fresh("inductor"))}
    return run_process(contender, case, dtype, seconds, env)


def measure(
    cases: Iterable[str], contenders: list[str], dtype: str, runs: int, seconds: float
) -> Results:
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="hpu-bench-") as base:
        for case in cases:
            folders = Folders(Path(base), f"{case}-{dtype}")
            figures: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
            for number in range(runs):
                order = contenders if number % 2 == 0 else contenders[::-1]
                for contender in order:
                    run = run_contender(contender, case, dtype, seconds, folders)
                    figures[contender].append(run)
                    text = run.get("error") or (
                        f"first {run['first_ms']:.0f} ms, steady {run['steady_ms']:.2f} ms"
                    )
                    print(f"{case} {dtype} run {number + 1}: {contender}: {text}", flush=True)
            stop_daemon(folders.kept("hpu-warm"))
            shutil.rmtree(folders.base, ignore_errors=True)
            results[f"{case} {dtype}"] = figures
    return results


def median(runs: list[dict[str, Any]], name: str) -> float | None:
    values = [run[name] for run in runs if name in run]
    return statistics.median(values) if values else None


def least(runs: list[dict[str, Any]], name: str) -> float | None:
    values = [run[name] for run in runs if name in run]
    return min(values) if values else None


def ratio(ours: float | None, theirs: float | None) -> str:
    return f"{theirs / ours:.2f}" if ours and theirs else "-"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def geometric_mean(values: list[float]) -> str:
    return f"{statistics.geometric_mean(values):.2f}" if values else "-"


def steady_table(results: Results) -> list[str]:
    """Milliseconds of a call: median (minimum), and our lead."""
    names = [n for n in STEADY if any(n in figures for figures in results.values())]
    lines = [
        "Steady state, milliseconds per call: median of runs (least of all calls).",
        "",
        "| model | " + " | ".join(names) + " | hpu | x eager | x best Inductor |",
        "|---" * (len(names) + 4) + "|",
    ]
    over_eager: list[float] = []
    over_inductor: list[float] = []
    for case, figures in results.items():
        ours_runs = figures.get("hpu cold", []) + figures.get("hpu warm", [])
        ours = median(ours_runs, "steady_ms")
        eager = median(figures.get("CPU eager", []), "steady_ms")
        inductor = [
            value
            for name, runs in figures.items()
            if name.startswith("inductor") and (value := median(runs, "steady_ms"))
        ]
        best = min(inductor, default=None)
        if ours and eager:
            over_eager.append(eager / ours)
        if ours and best:
            over_inductor.append(best / ours)
        cells = [
            f"{number(median(runs, 'steady_ms'))} ({number(least(runs, 'steady_min_ms'))})"
            for runs in [*(figures.get(name, []) for name in names), ours_runs]
        ]
        lines.append(
            f"| {case} | " + " | ".join(cells) + f" | {ratio(ours, eager)} | {ratio(ours, best)} |"
        )
    means = f" {geometric_mean(over_eager)} | {geometric_mean(over_inductor)} |"
    return [*lines, "| geometric mean |" + " |" * (len(names) + 1) + means]


def first_table(results: Results, contenders: list[str]) -> list[str]:
    """Milliseconds to the first output."""
    lines = [
        "First output, milliseconds after the model is built: median of runs.",
        "",
        "| model | " + " | ".join(contenders) + " | cold / aot_eager | warm / dynamo only |",
        "|---" * (len(contenders) + 3) + "|",
    ]
    for case, figures in results.items():
        firsts = {name: median(figures.get(name, []), "first_ms") for name in contenders}
        cells = [number(firsts[name]) for name in contenders]
        cold = ratio(firsts.get("aot_eager"), firsts.get("hpu cold"))
        warm = ratio(firsts.get("dynamo only"), firsts.get("hpu warm"))
        lines.append(f"| {case} | " + " | ".join(cells) + f" | {cold} | {warm} |")
    return lines


def describe(about: dict[str, Any], runs: int) -> str:
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['vector']}; PyTorch {about['torch']}, "
        f"Python {about['python']}; {about['date']}; {runs} runs, a process per figure, contenders "
        f"alternated; load {about['load']:.1f} at the start. Repeat with `./dev bench`."
    )


def write_between_markers(path: Path, content: str) -> None:
    """Replaces what is between the markers; appends them to a file that has none."""
    text = path.read_text() if path.exists() else "# Benchmarks\n\n" + "\n".join(MARKERS) + "\n"
    if MARKERS[0] not in text:
        return
    head, _, rest = text.partition(MARKERS[0])
    _, _, tail = rest.partition(MARKERS[1])
    path.write_text(f"{head}{MARKERS[0]}\n{content}\n{MARKERS[1]}{tail}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="five models, six contenders, one run")
    parser.add_argument("--cases", help="comma list; default all of cases.py")
    parser.add_argument("--contenders", help="comma list")
    parser.add_argument("--dtypes", default="f32,bf16", help="comma list of f32, bf16")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of steady state per process")
    parser.add_argument("--no-write", action="store_true", help="leave the documents alone")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    sys.path.insert(0, str(HERE))
    from cases import CASES

    cases = list(QUICK_CASES if arguments.quick else CASES)
    contenders = list(QUICK_CONTENDERS if arguments.quick else CONTENDERS)
    dtypes = ["f32"] if arguments.quick else arguments.dtypes.split(",")
    runs = 1 if arguments.quick else arguments.runs
    if arguments.cases:
        cases = arguments.cases.split(",")
    if arguments.contenders:
        contenders = arguments.contenders.split(",")
    unknown = set(cases) - set(CASES) | set(contenders) - set(CONTENDERS)
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}")
    if importlib.util.find_spec("openvino") is None:
        contenders = [name for name in contenders if name != "openvino"]
    about = machine()
    results: Results = {}
    for dtype in dtypes:
        results |= measure(cases, contenders, dtype, runs, arguments.seconds)
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    raw = folder / f"{stamp}.json"
    raw.write_text(json.dumps({"machine": about, "runs": runs, "results": results}, indent=1))
    steady = steady_table(results)
    first = first_table(results, contenders)
    page = "\n".join([describe(about, runs), "", *steady, "", *first])
    print("\n" + page + f"\n\nraw results: {raw.relative_to(ROOT)}")
    if not arguments.no_write:
        write_between_markers(ROOT / "docs/benchmarks.md", page)
        write_between_markers(ROOT / "README.md", "\n".join([describe(about, runs), "", *steady]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
