"""The arithmetic and the tables of benchmarks/, from canned results."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import compare
import figures
import plan
import runner
import tables
import targets


def steady(*milliseconds: float) -> list[figures.Run]:
    return [{"steady_ms": value, "steady_min_ms": value - 1} for value in milliseconds]


MODELS: figures.Results = {
    "a f32": {
        "CPU eager": steady(40, 30, 50),
        "inductor": steady(30, 34),
        "inductor warm": steady(32, 36),
        "inductor freezing": steady(24),
        "hpu cold": [*steady(12), {"failure": "lost"}],
        "hpu warm": steady(12),
    },
    "b f32": {
        "CPU eager": steady(10),
        "inductor": steady(9),
        "hpu cold": steady(10),
        "hpu warm": steady(10),
    },
}


def test_median_ignores_failed_runs():
    runs = [{"steady_ms": 3.0}, {"failure": "no"}, {"steady_ms": 1.0}, {"steady_ms": 7.0}]
    assert figures.median(runs, "steady_ms") == 3.0
    assert figures.least(runs, "steady_ms") == 1.0
    assert figures.most(runs, "steady_ms") == 7.0
    assert figures.median([{"failure": "no"}], "steady_ms") is None


def test_quotient_of_what_is_missing_is_missing():
    assert figures.quotient(6.0, 3.0) == 2.0
    assert figures.quotient(None, 3.0) is None
    assert figures.quotient(6.0, None) is None
    assert figures.quotient(0.0, 4.0) == 0.0


def test_best_inductor_joins_processes_that_run_the_same_code():
    assert figures.median(figures.steady_runs(MODELS["a f32"], "inductor"), "steady_ms") == 33.0
    assert figures.best_inductor(MODELS["a f32"]) == ("inductor freezing", 24.0)
    assert figures.best_inductor({"hpu cold": steady(1)}) is None


def test_leads():
    assert figures.leads(MODELS) == {"a f32": 2.0, "b f32": 0.9}


def test_growth_exponent():
    assert figures.growth_exponent([12, 24, 48], [10, 20, 40]) == pytest.approx(1.0)
    assert figures.growth_exponent([12, 48], [7, 7]) == 0.0
    assert figures.growth_exponent([12, 48], [1, 16]) == pytest.approx(2.0)
    assert figures.growth_exponent([12], [1]) is None


def test_peak_counts_what_is_freed_again():
    events = [(1, 100), (2, 50), (1, -100), (3, 70), (2, -50), (3, -70)]
    assert figures.peak_live_bytes(events) == 150
    # An output stays. A block from before the call does not count.
    assert figures.peak_live_bytes([(9, 1000), (1, 10), (8, -500), (1, -10)]) == 10
    # The same address is used twice.
    assert figures.peak_live_bytes([(1, 10), (1, -10), (1, 30), (1, -30)]) == 30
    assert figures.peak_live_bytes([]) == 0
    # In a training step, blocks that stay alive count as well.
    assert figures.peak_live_bytes([(1, 10), (2, 30), (1, -10), (3, 5)], kept=True) == 40


def test_memory_of_a_training_step_is_ours_over_inductors():
    results = {
        "a f32": {"inductor": [{"peak_memory_bytes": 8}], "hpu warm": [{"peak_memory_bytes": 6}]},
        "b f32": {"hpu cold": [{"peak_memory_bytes": 6}]},
    }
    assert figures.memory_ratios(results) == {"a f32": 0.75}
    found = {v.figure: v for v in targets.verdicts({"training": results})}
    verdict = found["training step: peak memory / Inductor's"]
    assert (verdict.met, verdict.measured) == (
        None,
        "mean 0.75 ×, worst 0.75 × (a f32); 1 of 14 rows",
    )


def test_remaining_time_follows_the_pace_so_far():
    remaining = figures.Remaining([10.0, 10.0, 20.0])
    assert remaining.seconds() == 40.0
    remaining.step_took(30.0)
    assert remaining.elapsed == 30.0
    assert remaining.seconds() == 90.0


def test_plan_alternates_contenders_and_puts_rounds_outermost():
    steps = plan.make_plan(
        plan.Choice(sections=("models",), contenders=("CPU eager", "hpu cold"), rounds=2),
        ["a", "b"],
    )
    assert [(s.round, s.row, s.contender) for s in steps[:5]] == [
        (0, "a f32", "CPU eager"),
        (0, "a f32", "hpu cold"),
        (0, "a bf16", "CPU eager"),
        (0, "a bf16", "hpu cold"),
        (0, "b f32", "CPU eager"),
    ]
    assert [(s.round, s.row, s.contender) for s in steps[8:10]] == [
        (1, "a f32", "hpu cold"),
        (1, "a f32", "CPU eager"),
    ]
    assert len(steps) == 16


def test_plan_has_every_section_once():
    models = list(compare.CASES)
    whole = plan.make_plan(plan.Choice(), models)
    assert {step.section for step in whole} == set(plan.SECTIONS)
    assert len(whole) == len(set(whole))
    quick = plan.make_plan(plan.Choice(quick=True, dtypes=("f32",)), models)
    assert {step.section for step in quick} == set(plan.SECTIONS)
    assert sum(step.expected_s for step in quick) < 8 * 60


def test_a_choice_of_models_leaves_other_sections_alone():
    steps = plan.make_plan(plan.Choice(cases=("mlp",)), ["mlp", "bert-base"])
    cases = {(step.section, step.case) for step in steps}
    assert ("models", "mlp") in cases
    assert ("models", "bert-base") not in cases
    assert ("peak", "bert-base") not in cases
    assert ("overhead", "call of 1 tensor") in cases


def test_unknown_names_are_refused_with_the_allowed_ones(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["compare.py", "--only", "models,speed"])
    with pytest.raises(SystemExit) as stop:
        compare.choice_of(compare.parse_arguments())
    assert str(stop.value).startswith("unknown section: speed; there are models, peak, training")


def test_figures_of_a_process():
    assert runner.read_figures('noise\nFIGURES {"first_ms": 2.5}\n', "", 0) == {"first_ms": 2.5}
    assert runner.read_figures("", "Traceback\nValueError: no\n", 1) == {
        "failure": "ValueError: no"
    }
    assert runner.read_figures("", "", -9) == {"failure": "exit code -9"}


@pytest.mark.parametrize(
    ("section", "contender", "autoload"),
    [("fetch", "hpu fetch", "1"), ("peak", "hpu peak", "0"), ("models", "hpu warm", "0")],
)
def test_only_the_process_that_fetches_has_the_package_loaded_by_pytorch(
    section, contender, autoload, tmp_path, monkeypatch
):
    loads: list[str] = []

    def run(command, env, **_):
        loads.append(env.get("TORCH_DEVICE_BACKEND_AUTOLOAD", ""))
        return subprocess.CompletedProcess(command, 0, 'FIGURES {"first_ms": 1}\n', "")

    monkeypatch.setattr(runner.subprocess, "run", run)
    step = plan.Step(section, "bert-base", "f32", contender, 0)
    assert runner.Runner(tmp_path, 0.0).run(step) == {"first_ms": 1}
    assert loads[-1] == autoload


def test_clock():
    assert compare.clock(65) == "1:05"
    assert compare.clock(3723.9) == "1:02:03"


class CannedRunner:
    def __init__(self) -> None:
        self.steps: list[plan.Step] = []

    def run(self, step: plan.Step) -> figures.Run:
        self.steps.append(step)
        return {"first_ms": 1.23456789, "graphs": 1}


def test_a_run_past_its_budget_still_has_every_row(capsys):
    steps = plan.make_plan(
        plan.Choice(sections=("models",), contenders=("CPU eager",), dtypes=("f32",)), ["a", "b"]
    )
    canned_runner = CannedRunner()
    kept: list[str] = []
    sections = compare.run_plan(
        steps,
        canned_runner,  # type: ignore[arg-type]
        -1.0,
        lambda so_far: kept.append(json.dumps(so_far)),
    )
    assert len(kept) == 2
    assert json.loads(kept[-1]) == sections
    assert [step.case for step in canned_runner.steps] == ["a", "b"]
    assert sections["models"]["b f32"]["CPU eager"] == [{"first_ms": 1.2346, "graphs": 1}]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("[1/6, 0:00 elapsed, about ")
    assert printed[0].endswith("models a f32 round 1: CPU eager: first_ms 1.23")


def test_kept_results_are_json_with_a_line_per_contender():
    kept = {"about": {"models": {"cpu": "x"}}, "sections": {"models": MODELS}}
    text = compare.compact(kept)
    assert json.loads(text) == kept
    assert '   "inductor freezing": [{"steady_ms": 24, "steady_min_ms": 23}],' in text.splitlines()


def test_readme_shows_a_few_rows_of_the_kept_figures():
    """Including those that miss their target."""
    kept = json.loads(compare.KEPT.read_text())
    block = tables.readme_block(kept["sections"])
    page = (ROOT / "README.md").read_text()
    begin, end = compare.MARKERS
    assert page.partition(begin)[2].partition(end)[0].strip() == "\n".join(block)
    rows = [line for line in block if line.startswith("| ")][1:]
    assert len(rows) == len(targets.README_FIGURES) <= 8
    known = [verdict.figure for verdict in targets.verdicts(kept["sections"])]
    assert set(targets.README_FIGURES) <= set(known)
    assert any(row.endswith("**no** |") for row in rows)


def test_readme_counts_the_targets():
    nothing = tables.readme_block({})
    assert nothing[0] == "Of 27 targets 0 are met, 0 are missed and 27 are not measured."
    assert len(nothing) == 4 + len(targets.README_FIGURES)


def test_documents_keep_what_is_outside_the_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("head\n<!-- benchmarks -->\nold\n<!-- /benchmarks -->\ntail\n")
    compare.write_between_markers(page, "new")
    assert page.read_text() == "head\n<!-- benchmarks -->\nnew\n<!-- /benchmarks -->\ntail\n"
    page.write_text("no markers\n")
    with pytest.raises(SystemExit, match="has no <!-- benchmarks -->"):
        compare.write_between_markers(page, "new")


def test_added_runs_join_rows_and_descriptions():
    earlier = {"b f32": {"hpu cold": [{"first_ms": 1.0}]}, "sum f32": {"hpu cold": [{"x": 1}]}}
    later = {
        "a f32": {"hpu cold": [{"first_ms": 3.0}]},
        "b f32": {"hpu cold": [{"first_ms": 2.0}], "inductor": [{"first_ms": 9.0}]},
    }
    joined = figures.joined_results(earlier, later, ["a", "b"])
    assert list(joined) == ["sum f32", "a f32", "b f32"]
    assert joined["b f32"]["hpu cold"] == [{"first_ms": 1.0}, {"first_ms": 2.0}]
    assert joined["b f32"]["inductor"] == [{"first_ms": 9.0}]
    assert earlier["b f32"]["hpu cold"] == [{"first_ms": 1.0}]

    def about(date, commit, minutes, load):
        return {
            "cpu": "C", "cores": 2, "vector": "V", "torch": "T", "python": "P", "date": date,
            "commit": commit, "minutes": minutes, "load": load, "rounds": 1,
        }  # fmt: skip

    first = about("2026-01-01", "x", 5, 0.5)
    both = figures.joined_about(first, about("2026-01-02", "y", 6, 0.1), joined)
    again = figures.joined_about(both, about("2026-01-03", "y", 1, 0.2), joined)
    assert (again["date"], again["commit"]) == ("2026-01-01 to 2026-01-03", "x, y")
    assert (again["minutes"], again["rounds"], again["runs"], again["load"]) == (12, 2, 3, 0.5)
    assert "; 2026-01-01 to 2026-01-03; 2 rounds in 3 runs (not" in tables.describe(again)


def test_added_rows_join_and_renewed_rows_replace(monkeypatch, tmp_path):
    monkeypatch.setattr(compare, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(compare, "render", (rendered := []).append)

    def run(row, value, **how):
        about = {"date": "d", "commit": "c", "load": 0, "minutes": 1}
        models = {row: {"hpu cold": [{"first_ms": value}]}}
        compare.write_documents({"about": about, "sections": {"models": models}}, **how)
        kept = rendered[-1]["sections"]["models"]
        return {row: [r["first_ms"] for r in by["hpu cold"]] for row, by in kept.items()}

    assert run("unet f32", 1.0) == {"unet f32": [1.0]}
    assert run("vit f32", 2.0, add=True) == {"vit f32": [2.0], "unet f32": [1.0]}
    assert run("unet f32", 3.0, add=True) == {"vit f32": [2.0], "unet f32": [1.0, 3.0]}
    assert run("unet f32", 4.0, renew=True) == {"vit f32": [2.0], "unet f32": [4.0]}
    assert run("mlp f32", 5.0) == {"mlp f32": [5.0]}


def test_figures_of_another_machine_are_not_added(monkeypatch, tmp_path):
    kept = tmp_path / "kept.json"
    about = {"cpu": "C", "cores": 2, "vector": "V", "python": "P", "torch": "T"}
    kept.write_text(json.dumps({"about": {"peak": about}, "sections": {}}))
    monkeypatch.setattr(compare, "KEPT", kept)
    compare.refuse_other_machine(about, ["peak", "models"])
    with pytest.raises(SystemExit, match="peak was measured with cores 2, this is 4"):
        compare.refuse_other_machine(about | {"cores": 4}, ["peak"])
