"""Markdown tables of the results."""

from __future__ import annotations

from typing import Any

from figures import (
    INDUCTOR_VARIANTS,
    RUNTIMES,
    Results,
    Run,
    best_inductor,
    best_peer,
    first_ratios,
    geometric_mean,
    least,
    median,
    memory_ratios,
    most,
    quotient,
    steady_ratios,
    steady_runs,
    values,
)
from targets import README_FIGURES, Sections, depth_growth, layers_of, verdicts

TARGET_HEADER = ["| figure | target | measured | met |", "|---|---|---|---|"]
STEADY = ("CPU eager", *INDUCTOR_VARIANTS, *RUNTIMES, "hpu")


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if abs(value) < 0.095:
        return f"{value:.3f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def small(value: float | None) -> str:
    """Formats an error: 1.2e-06."""
    return "-" if value is None else "0" if value == 0 else f"{value:.1e}"


def kilobytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1024:.0f}"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def _present(results: Results, contenders: tuple[str, ...]) -> list[str]:
    return [
        name for name in contenders if any(steady_runs(by, name) for by in results.values())
    ]  # fmt: skip


def target_table(sections: Sections) -> list[str]:
    return [*TARGET_HEADER, *(verdict.row() for verdict in verdicts(sections))]


def readme_block(sections: Sections) -> list[str]:
    """How many targets are met, and the few rows of the table that README shows."""
    rows = verdicts(sections)
    met = sum(verdict.met is True for verdict in rows)
    missed = sum(verdict.met is False for verdict in rows)
    counts = f"Of {len(rows)} targets {met} are met, {missed} are missed"
    if met + missed < len(rows):
        counts += f" and {len(rows) - met - missed} are not measured"
    shown = [verdict.row() for verdict in rows if verdict.figure in README_FIGURES]
    return [f"{counts}.", "", *TARGET_HEADER, *shown]


def steady_table(results: Results) -> list[str]:
    """Milliseconds of a call as median (least), and our lead."""
    names = _present(results, STEADY)
    rows = []
    over: dict[str, list[float]] = {"eager": [], "inductor": [], "peer": []}
    for case, by in results.items():
        ours = median(steady_runs(by, "hpu"), "steady_ms")
        best = best_inductor(by)
        eager = quotient(median(by.get("CPU eager", []), "steady_ms"), ours)
        inductor = quotient(best and best[1], ours)
        over["eager"] += [eager] if eager else []
        over["inductor"] += [inductor] if inductor else []
        fastest = best_peer(results, case)
        peer = quotient(fastest and fastest[1], ours)
        over["peer"] += [peer] if peer else []
        cells = [
            f"{number(median(runs, 'steady_ms'))} ({number(least(runs, 'steady_min_ms'))})"
            if values(runs, "steady_ms")
            else "-"
            for runs in (steady_runs(by, name) for name in names)
        ]
        named = f"{number(peer)} ({fastest[0]})" if fastest else "-"
        rows.append([case, *cells, number(eager), number(inductor), named])
    means = [number(geometric_mean(ratios)) for ratios in over.values()]
    rows.append(["geometric mean", *[""] * len(names), *means])
    return table(["model", *names, "x eager", "x best Inductor", "x best of all"], rows)


def calls_table(results: Results) -> list[str]:
    """How even the times of single calls are, and how much of the cores they use."""
    every = results.values()
    names = [n for n in STEADY if any(values(steady_runs(by, n), "over_best") for by in every)]
    rows = []
    for case, by in results.items():
        cells = []
        for name in names:
            runs = steady_runs(by, name)
            over, used = median(runs, "over_best"), median(runs, "cores_used")
            switches = [number(median(runs, kind)) for kind in ("gave_way", "interrupted")]
            cells.append("-" if over is None or used is None
                         else f"{over:.2f}, {used:.0%} ({' + '.join(switches)})")  # fmt: skip
        rows.append([case, *cells])
    return table(["model", *names], rows)


def first_table(results: Results, contenders: tuple[str, ...]) -> list[str]:
    """Milliseconds to the first output, median."""
    names = [n for n in contenders if any(values(by.get(n, []), "first_ms")
                                          for by in results.values())]  # fmt: skip
    rows = [
        [case, *(number(median(by.get(name, []), "first_ms")) for name in names)]
        for case, by in results.items()
    ]
    return table(["model", *names], rows)


# The targets are about these ratios of times to the first output.
_RATIOS = {
    "cold / aot_eager": ("hpu cold", "aot_eager"),
    "Inductor cold / cold": ("inductor", "hpu cold"),
    "cold / OpenVINO": ("hpu cold", "openvino"),
    "warm / Dynamo only": ("hpu warm", "dynamo only"),
    "Inductor warm / warm": ("inductor warm", "hpu warm"),
}
_TRAINING_RATIOS = {
    label: _RATIOS[label]
    for label in ("cold / aot_eager", "Inductor cold / cold", "warm / Dynamo only")
}


def ratio_table(results: Results, pairs: dict[str, tuple[str, str]]) -> list[str]:
    """A row per case: first_ms of the first contender of each pair over that of the second."""
    ratios = {label: first_ratios(results, *pair) for label, pair in pairs.items()}
    rows = [[case, *(number(r.get(case)) for r in ratios.values())] for case in results]
    rows.append(
        ["geometric mean", *(number(geometric_mean(list(r.values()))) for r in ratios.values())]
    )
    return table(["model", *pairs], rows)


def check_table(results: Results) -> list[str]:
    """Graphs, eager segments and largest errors against CPU eager in f32."""
    names = [n for n in STEADY if n != "hpu"]
    rows = []
    for case, by in results.items():
        ours = steady_runs(by, "hpu")
        rows.append(
            [
                case,
                *(number_or_dash(most(ours, n)) for n in ("graphs", "recipes", "eager_segments")),
                small(most(ours, "error")),
                *(small(most(steady_runs(by, name), "error")) for name in names),
            ]
        )
    return table(["model", "graphs", "recipes", "eager segments", "hpu", *names], rows)


def number_or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def limit_table(results: Results, models: Results) -> list[str]:
    """The limit of the machine, how near we come to it, and how far ahead of the fastest peer a
    program at the limit would be."""
    rows = []
    for case, by in results.items():
        runs = by.get("hpu peak", [])
        share = median(runs, "share")
        limit = median(runs, "limit_ms") or None
        fastest = best_peer(models, case) if case in models else None
        rows.append(
            [
                case,
                number(median(runs, "gflop")),
                number(median(runs, "peak_gflops")),
                "-" if not share else f"{share:.0%}",
                number(median(runs, "weights_mb")),
                number(median(runs, "read_gbytes")),
                number(limit),
                number(median(runs, "steady_ms")),
                number(quotient(limit, median(runs, "steady_ms"))),
                number(quotient(fastest and fastest[1], limit)),
            ]
        )
    return table(
        ["model", "GFLOP", "peak GFLOP/s", "share of peak", "weights MB", "read GB/s", "limit ms",
         "ms", "limit / ours", "best of all / limit"], rows)  # fmt: skip


def training_table(results: Results) -> list[str]:
    """Milliseconds of a step as median (least), our lead, the share of the peak, and peak
    memory."""
    names = _present(results, ("CPU eager", "inductor", "hpu"))
    eager, inductor = steady_ratios(results, "CPU eager"), steady_ratios(results, "inductor")
    memory = memory_ratios(results)
    rows = []
    for case, by in results.items():
        runs = [steady_runs(by, name) for name in names]
        cells = [f"{number(median(r, 'steady_ms'))} ({number(least(r, 'steady_min_ms'))})"
                 if values(r, "steady_ms") else "-" for r in runs]  # fmt: skip
        share = median(by.get("hpu cold", []), "share")
        segments = most(steady_runs(by, "hpu"), "eager_segments")
        rows.append([case, *cells, number(eager.get(case)), number(inductor.get(case)),
                     "-" if share is None else f"{share:.0%}", number(memory.get(case)),
                     number_or_dash(segments)])  # fmt: skip
    ratios = (eager, inductor, memory)
    means = [number(geometric_mean(list(of.values()))) for of in ratios]
    rows.append(["geometric mean", *[""] * len(names), *means[:2], "", means[2], ""])
    header = ["model", *names, "x eager", "x Inductor", "share of peak", "memory / Inductor's",
              "eager segments"]  # fmt: skip
    return table(header, rows)


def optimizer_table(results: Results) -> list[str]:
    """The bytes per second that the optimizer alone reads and writes, beside the bandwidth."""
    rows = []
    for case, by in results.items():
        for name in ("CPU eager", "inductor", "hpu"):
            runs = steady_runs(by, name)
            moved, most_moved = median(runs, "bytes_per_second"), median(runs, "bandwidth")
            share = quotient(moved, most_moved)
            rows.append([case, name, number(median(runs, "steady_ms")),
                         number(moved and moved * 1e-9), number(most_moved and most_moved * 1e-9),
                         "-" if share is None else f"{share:.0%}"])  # fmt: skip
    return table(["", "", "ms", "GB/s", "bandwidth GB/s", "share"], rows)


def fetch_table(results: Results) -> list[str]:
    columns = ("key_ms", "fetch_ms", "load_ms", "total_ms", "again_ms")
    return _plain(results, "hpu fetch", columns, [c.removesuffix("_ms") for c in columns])


def overhead_table(results: Results) -> list[str]:
    columns = ("call_us", "enqueue_us", "launch_us", "kernel_us")
    return _plain(results, "hpu overhead", columns, [c.removesuffix("_us") for c in columns])


def _plain(
    results: Results, contender: str, columns: tuple[str, ...], labels: list[str]
) -> list[str]:
    rows = [
        [case, *(number(median(by.get(contender, []), name)) for name in columns)]
        for case, by in results.items()
    ]
    return table(["", *labels], rows)


def workspace_table(results: Results) -> list[str]:
    rows = []
    for case, by in results.items():
        ours = median(by.get("hpu memory", []), "workspace_bytes")
        theirs = median(by.get("inductor memory", []), "workspace_bytes")
        rows.append([case, kilobytes(ours), kilobytes(theirs), number(quotient(ours, theirs))])
    return table(["model", "recipe workspace", "Inductor's buffers", "ratio"], rows)


def depth_table(results: Results) -> list[str]:
    columns = {
        "compile ms": ("hpu cold", "compile_ms"),
        "capture ms": ("hpu cold", "capture_ms"),
        "first output ms": ("hpu cold", "first_ms"),
        "aot_eager first ms": ("aot_eager", "first_ms"),
        "nodes": ("hpu cold", "nodes"),
        "kernels of a call": ("hpu cold", "kernels"),
        "recipe bytes": ("hpu cold", "recipe_bytes"),
        "code bytes": ("hpu cold", "code_bytes"),
    }
    rows = []
    for case in sorted(results, key=layers_of):
        figures = (median(results[case].get(c, []), name) for c, name in columns.values())
        rows.append([str(layers_of(case)), *map(number, figures)])
    growth = depth_growth(results)
    text = ", ".join(f"{name} n^{exponent:.2f}" for name, exponent in growth.items())
    return [*table(["layers", *columns], rows), "", f"Growth with the number of layers: {text}."]


def failure_lines(sections: Sections) -> list[str]:
    """The failures, once per contender and message."""
    found: dict[tuple[str, str], list[str]] = {}
    for section, results in sections.items():
        for case, by in results.items():
            for contender, runs in by.items():
                for run in runs:
                    if "failure" in run:
                        cases = found.setdefault((contender, str(run["failure"])), [])
                        label = f"{section}: {case}"
                        if label not in cases:
                            cases.append(label)
    return [
        f"- {contender}: `{message[:200]}` ({', '.join(cases)})"
        for (contender, message), cases in found.items()
    ]


_FIRST = ("CPU eager", "dynamo only", "aot_eager", "inductor", "inductor warm",
          "inductor mega-cache", *RUNTIMES, "hpu cold", "hpu warm")  # fmt: skip
_TRAINING_FIRST = ("CPU eager", "dynamo only", "aot_eager", "inductor", "hpu cold", "hpu warm")
_CONTAINER = ("dynamo only", "inductor mega-cache", "inductor mega-cache, no compiler",
              "hpu shared daemon", "hpu shared store")  # fmt: skip


def page(sections: Sections) -> list[str]:
    """All tables with their headings; docs/benchmarks.md explains the terms around them."""
    parts: list[tuple[str, str, list[str]]] = [("Targets", "", target_table(sections))]
    models = sections.get("models", {})
    if models:
        parts += [
            ("Steady state", "Milliseconds per call: median of processes (least of all calls).",
             steady_table(models)),
            ("Single calls",
             "Median of calls over the mean of their fastest 5 %, processor time as a share of all "
             "cores' time (switches a call: voluntary + involuntary): medians of processes.",
             calls_table(models)),
            ("First output", "Milliseconds: median of processes.", first_table(models, _FIRST)),
            ("First output, ratios", "", ratio_table(models, _RATIOS)),
            ("Graphs and errors",
             "Largest error as a share of the output's range, against CPU eager in f32 on the same "
             "weights.", check_table(models)),
        ]  # fmt: skip
    training = sections.get("training", {})
    if training:
        parts += [
            ("Training",
             "Milliseconds per step (forward, loss, backward, AdamW; bf16: autocast): median of "
             "processes (least of all steps). Memory: at the peak of a step, above parameters, "
             "optimizer's state and inputs.", training_table(training)),
            ("First training step",
             "Milliseconds, the optimizer's compilation included: median of processes.",
             first_table(training, _TRAINING_FIRST)),
            ("First training step, ratios", "", ratio_table(training, _TRAINING_RATIOS)),
        ]  # fmt: skip
    others: dict[str, tuple[str, str, Any]] = {
        "peak": ("What the machine allows", "", lambda results: limit_table(results, models)),
        "optimizer": ("Optimizer", "AdamW on BERT-base's parameters, 28 bytes each.",
                      optimizer_table),
        "container": ("First output in a fresh container", "Milliseconds: median of processes.",
                      lambda results: first_table(results, _CONTAINER)),
        "fetch": ("Program fetch", "Milliseconds.", fetch_table),
        "overhead": ("Overhead of one call", "Microseconds.", overhead_table),
        "workspace": ("Workspace", "KiB.", workspace_table),
        "depth": ("Depth", "", depth_table),
    }  # fmt: skip
    for section, (title, text, make) in others.items():
        if section in sections:
            parts.append((title, text, make(sections[section])))
    failures = failure_lines(sections)
    if failures:
        parts.append(("What did not run", "", failures))
    lines: list[str] = []
    for title, text, content in parts:
        lines += [f"### {title}", "", *([text, ""] if text else []), *content, ""]
    return lines[:-1]


def describe(about: dict[str, Any]) -> str:
    runs = about.get("runs", 1)
    together = "" if runs == 1 else f" in {runs} runs (not every row in each)"
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['vector']}; PyTorch {about['torch']}, "
        f"Python {about['python']}; {about['date']}; {about['rounds']} rounds{together}, a process "
        f"per figure, contenders alternated; {about['minutes']:.0f} minutes, load "
        f"{about['load']:.1f} at the start. Repeat with `./dev bench`."
    )


def summary(run: Run) -> str:
    """The figures of one process in a progress line."""
    if "failure" in run:
        return "failed: " + str(run["failure"])[:150]
    parts = [
        f"{name} {number(run[name])}"
        for name in ("first_ms", "steady_ms", "share", "total_ms", "call_us", "workspace_bytes",
                     "code_bytes")
        if name in run
    ]  # fmt: skip
    if "error" in run:
        parts.append(f"error {small(run['error'])}")
    return ", ".join(parts)
