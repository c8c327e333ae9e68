#!/usr/bin/env python3
"""Side-by-side comparison of hpu_backend with PyTorch's own ways to run a model on this CPU.

Every figure comes from a process of its own; contenders alternate within each round. Raw results
go to benchmarks/results/; a full run also keeps them in docs/benchmarks.json and writes the tables
between the markers <!-- benchmarks --> and <!-- /benchmarks --> of docs/benchmarks.md and of
README.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from cases import CASES
from figures import Remaining, Run, joined_about, joined_results
from plan import SECTIONS, Choice, Step, make_plan
from runner import Runner
from tables import describe, page, readme_block, summary
from targets import Sections
from training_cases import TRAINING_CASES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ALL_CASES = list(dict.fromkeys([*CASES, *TRAINING_CASES]))
KEPT = ROOT / "docs/benchmarks.json"
MARKERS = ("<!-- benchmarks -->", "<!-- /benchmarks -->")


def machine() -> dict[str, Any]:
    """The properties of the machine on which the figures depend."""
    lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    info = {name.strip(): value.strip() for name, _, value in (s.partition(":") for s in lines)}
    flags = set(info.get("flags", "").split())
    numbers = [info.get(name, "?") for name in ("cpu family", "model", "stepping")]
    name = info.get("model name", platform.machine())
    cpu = f"{name} (family/model/stepping {'/'.join(numbers)})"
    level = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE"
    extra = [n for n, flag in (("BF16", "avx512_bf16"), ("AMX", "amx_tile")) if flag in flags]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "vector": ", ".join([level, *extra]),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "commit": commit.stdout.strip(),
    }


def clock(seconds: float) -> str:
    """Formats seconds as 1:02:03, or as 2:03 below an hour."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def rounded(run: Run) -> Run:
    """Rounds to five significant digits, because times are not more precise, and files stay
    small."""
    return {n: float(f"{v:.5g}") if isinstance(v, float) else v for n, v in run.items()}


def run_plan(
    plan: Sequence[Step], runner: Runner, budget_s: float, keep: Callable[[Sections], None]
) -> Sections:
    """Runs the steps. Past the budget, only steps without any figure yet are still measured. `keep`
    gets the results so far after every step."""
    sections: Sections = {}
    remaining = Remaining([step.expected_s for step in plan])
    for number, step in enumerate(plan, 1):
        runs = sections.setdefault(step.section, {}).setdefault(step.row, {})
        mine = runs.setdefault(step.contender, [])
        if mine and remaining.elapsed > budget_s:
            remaining.step_took(0.0)
            continue
        started = time.monotonic()
        figures = runner.run(step)
        mine.append(rounded(figures))
        keep(sections)
        remaining.step_took(time.monotonic() - started)
        print(
            f"[{number}/{len(plan)}, {clock(remaining.elapsed)} elapsed, about "
            f"{clock(remaining.seconds())} left] {step.section} {step.row} round {step.round + 1}: "
            f"{step.contender}: {summary(figures)}",
            flush=True,
        )
    return sections


def write_between_markers(path: Path, content: str) -> None:
    """Replaces the text between the markers; a file without them is an error."""
    text = path.read_text()
    head, begin, rest = text.partition(MARKERS[0])
    _, end, tail = rest.partition(MARKERS[1])
    if not begin or not end:
        raise SystemExit(f"{path} has no {MARKERS[0]} ... {MARKERS[1]}")
    path.write_text(f"{head}{begin}\n{content}\n{end}{tail}")


def read_kept() -> dict[str, Any]:
    empty: dict[str, Any] = {"about": {}, "sections": {}}
    return json.loads(KEPT.read_text()) if KEPT.exists() else empty


def without(earlier: dict[str, Any], renewed: Iterable[str]) -> dict[str, Any]:
    """Drops the contenders of a row that were measured anew. All contenders that run our code go
    together."""
    ours = any(name.startswith("hpu") for name in renewed)
    return {
        name: runs
        for name, runs in earlier.items()
        if name not in renewed and not (ours and name.startswith("hpu"))
    }


def write_documents(data: dict[str, Any], add: bool = False, renew: bool = False) -> None:
    """Writes docs/benchmarks.json, and from it docs/benchmarks.md and README.md.

    Sections that this run did not measure stay as an earlier run left them, under that run's
    description. With `add` its figures join those of earlier runs, with `renew` they replace those
    of the same contenders."""
    kept = read_kept()
    for section, results in data["sections"].items():
        about = data["about"]
        if (add or renew) and section in kept["sections"]:
            earlier = kept["sections"][section]
            if renew:
                earlier = {row: without(by, results.get(row, {})) for row, by in earlier.items()}
            results = joined_results(earlier, results, ALL_CASES)
            about = joined_about(kept["about"][section], about, results)
        kept["sections"][section] = results
        kept["about"][section] = about
    KEPT.write_text(compact(kept))
    render(kept)


def refuse_other_machine(about: dict[str, Any], sections: Iterable[str]) -> None:
    """Raises SystemExit if earlier figures of a section are those of another machine or PyTorch."""
    kept = read_kept()["about"]
    for section in sections:
        for name in ("cpu", "cores", "vector", "python", "torch"):
            if section in kept and kept[section][name] != about[name]:
                raise SystemExit(
                    f"section {section} was measured with {name} {kept[section][name]}, "
                    f"this is {about[name]}"
                )


def render(kept: dict[str, Any]) -> None:
    order = [section for section in SECTIONS if section in kept["sections"]]
    sections = {section: kept["sections"][section] for section in order}
    lines: dict[str, list[str]] = {}
    for section in order:
        lines.setdefault(describe(kept["about"][section]), []).append(section)
    about = [
        text if len(lines) == 1 else f"{', '.join(names)}: {text}" for text, names in lines.items()
    ]
    head = "\n\n".join(about)
    write_between_markers(ROOT / "docs/benchmarks.md", "\n".join([head, "", *page(sections)]))
    write_between_markers(ROOT / "README.md", "\n".join(readme_block(sections)))


def compact(kept: dict[str, Any]) -> str:
    """JSON with a line per contender and case, for readable differences and few lines."""
    lines = []
    for section, results in kept["sections"].items():
        rows = [
            f"  {json.dumps(case)}: {{\n"
            + ",\n".join(f"   {json.dumps(name)}: {json.dumps(runs)}" for name, runs in by.items())
            + "\n  }"
            for case, by in results.items()
        ]
        lines.append(f" {json.dumps(section)}: {{\n" + ",\n".join(rows) + "\n }")
    about = json.dumps(kept["about"])
    return f'{{"about": {about},\n"sections": {{\n' + ",\n".join(lines) + "\n}}\n"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="A full run takes hours; --plan guesses the time.",
    )
    parser.add_argument("--quick", action="store_true", help="few models and contenders, one round")
    parser.add_argument("--only", help=f"comma list of sections: {', '.join(SECTIONS)}")
    parser.add_argument(
        "--cases",
        help=f"comma list of models: {', '.join(ALL_CASES)}",
    )
    parser.add_argument("--contenders", help="comma list")
    parser.add_argument("--dtypes", default="f32,bf16", help="comma list of f32, bf16")
    parser.add_argument("--rounds", type=int, default=0, help="default: the section's own, 1 or 3")
    parser.add_argument("--seconds", type=float, default=3.0, help="of steady state per process")
    parser.add_argument(
        "--budget", type=float, default=300.0, help="minutes; then only first rounds are finished"
    )
    parser.add_argument(
        "--write",
        action=argparse.BooleanOptionalAction,
        help="docs/benchmarks.* and README.md; default for runs with all models and contenders",
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="with --write: join the figures of earlier runs on this machine (more processes per "
        "figure, more models) instead of replacing sections",
    )
    parser.add_argument(
        "--renew",
        action="store_true",
        help="like --add, but figures replace earlier ones of the same contenders and rows (after "
        "a change that matters to these models)",
    )
    parser.add_argument("--plan", action="store_true", help="print the steps and the expected time")
    parser.add_argument("--render", action="store_true", help="write the documents anew, no run")
    return parser.parse_args()


def choice_of(arguments: argparse.Namespace) -> Choice:
    """The choice of the command line. Raises SystemExit, which names unknown values."""

    def items(text: str | None, allowed: Sequence[str], what: str) -> tuple[str, ...]:
        found = tuple(text.split(",")) if text else ()
        unknown = [item for item in found if item not in allowed]
        if unknown:
            raise SystemExit(
                f"unknown {what}: {', '.join(unknown)}; there are {', '.join(allowed)}"
            )
        return found

    contenders = [name for section in SECTIONS.values() for name in section.contenders]
    return Choice(
        items(arguments.only, list(SECTIONS), "section"),
        items(arguments.cases, ALL_CASES, "case"),
        items(arguments.contenders, list(dict.fromkeys(contenders)), "contender"),
        items(arguments.dtypes, ("f32", "bf16"), "element type"),
        arguments.rounds,
        arguments.quick,
    )


def main() -> int:
    arguments = parse_arguments()
    if arguments.render:
        render(json.loads(KEPT.read_text()))
        return 0
    choice = choice_of(arguments)
    plan = make_plan(choice, list(CASES))
    print(f"{len(plan)} steps, about {clock(sum(step.expected_s for step in plan))}", flush=True)
    if arguments.plan:
        for step in plan:
            print(f"{step.section} {step.row} round {step.round + 1}: {step.contender}")
        return 0
    # A terminated run stops its daemons and removes its folders, as a run ended by Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    about = machine() | {"rounds": max((step.round + 1 for step in plan), default=0)}
    if arguments.add or arguments.renew:
        refuse_other_machine(about, dict.fromkeys(step.section for step in plan))
    started = time.monotonic()
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    raw = folder / f"{datetime.datetime.now():%Y%m%d-%H%M%S}.json"

    def keep(sections: Sections) -> None:
        about["minutes"] = (time.monotonic() - started) / 60
        raw.write_text(compact({"about": about, "sections": sections}))

    with tempfile.TemporaryDirectory(prefix="hpu-bench-", ignore_cleanup_errors=True) as base:
        runner = Runner(Path(base), arguments.seconds)
        try:
            sections = run_plan(plan, runner, arguments.budget * 60, keep)
        finally:
            runner.stop_daemon(runner.store)
    data = {"about": about, "sections": sections}
    print("\n".join(["", describe(about), "", *page(sections)]))
    print(f"\nraw results: {raw.relative_to(ROOT)}")
    whole = not (choice.quick or choice.cases or choice.contenders)
    if whole if arguments.write is None else arguments.write:
        write_documents(data, arguments.add, arguments.renew)
    return 0


if __name__ == "__main__":
    sys.exit(main())
