"""The arithmetic and the tables of benchmarks/, from canned results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import compare
import figures
import plan
import runner
import tables
import targets


def steady(*milliseconds: float) -> list[figures.Run]:
    return [{"steady_ms": value, "steady_min_ms": value - 1} for value in milliseconds]


def first(milliseconds: float) -> list[figures.Run]:
    return [{"first_ms": milliseconds}]


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
    # An output stays; a block of before is not the call's.
    assert figures.peak_live_bytes([(9, 1000), (1, 10), (8, -500), (1, -10)]) == 10
    # The same address twice.
    assert figures.peak_live_bytes([(1, 10), (1, -10), (1, 30), (1, -30)]) == 30
    assert figures.peak_live_bytes([]) == 0
    # Of a training step also what lives on counts.
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


def test_verdicts_say_the_worst_case():
    verdict = targets.at_most("f", "≤ 1.25", {"a": 1.0, "b": 1.5625}, 1.25)
    assert verdict.row() == "| f | ≤ 1.25 | mean 1.25 ×, worst 1.56 × (b) | **no** |"
    assert targets.at_most("f", "≤ 2", {"a": 1.0, "b": 1.5625}, 2.0).met is True
    assert targets.at_least("f", "≥ 4", {"a": 4.0, "b": 9.0}, 4.0).met is True
    assert targets.at_least("f", "≥ 4", {"a": 4.0, "b": 9.0}, 4.0, mean=7.0).met is False
    assert targets.at_least("f", "≥ 4", {}, 4.0).row() == "| f | ≥ 4 | not measured | - |"


def test_all_targets_without_results_are_not_measured():
    rows = targets.verdicts({})
    assert len(rows) == 25
    assert {verdict.met for verdict in rows} == {None}


def limits(share):
    return {
        "gflop": 22.3,
        "peak_gflops": 233,
        "share": share,
        "weights_mb": 438,
        "read_gbytes": 40.0,
        "limit_ms": 16.0,
        "steady_ms": 20.0,
    }


def canned() -> targets.Sections:
    depth: figures.Results = {}
    for layers in (12, 48):
        depth[f"bert {layers} layers f32"] = {
            "hpu cold": [
                {
                    "compile_ms": 10.0 * layers,
                    "first_ms": 1000.0 + layers,
                    "recipe_bytes": 100 * layers,
                    "code_bytes": 5000,
                }
            ]
        }
    return {
        "models": {
            "a f32": {
                "CPU eager": [{"steady_ms": 40.0, "steady_min_ms": 39.0, "first_ms": 50.0}],
                "dynamo only": first(1000.0),
                "aot_eager": first(1500.0),
                "inductor": [
                    {"steady_ms": 30.0, "steady_min_ms": 29.0, "first_ms": 9000.0, "error": 1e-6}
                ],
                "openvino": [{"failure": "KeyError: torch.bfloat16"}],
                "hpu cold": [
                    {
                        "steady_ms": 20.0,
                        "steady_min_ms": 19.0,
                        "first_ms": 1800.0,
                        "error": 2e-6,
                        "graphs": 1,
                        "recipes": 1,
                        "eager_segments": 0,
                    }
                ],
                "hpu warm": [{"steady_ms": 22.0, "steady_min_ms": 18.0, "first_ms": 1080.0}],
            }
        },
        "peak": {
            "bert-base f32": {"hpu peak": [limits(share=0.86)]},
            "resnet50 f32": {"hpu peak": [limits(share=0.79)]},
            "mlp f32": {"hpu peak": [limits(share=0.2)]},
            "a f32": {"hpu peak": [limits(share=0.9)]},
        },
        "container": {
            "a f32": {
                "dynamo only": first(1100.0),
                "inductor mega-cache": first(5000.0),
                "hpu shared daemon": first(1122.0),
            }
        },
        "fetch": {"bert-base f32": {"hpu fetch": [{"key_ms": 3.0, "total_ms": 4.5}]}},
        "overhead": {
            "call of 1 tensor f32": {"hpu overhead": [{"call_us": 9.0, "launch_us": 1.0}]},
            "call of 200 tensors f32": {"hpu overhead": [{"call_us": 20.5, "launch_us": 4.0}]},
        },
        "workspace": {
            "a f32": {
                "hpu memory": [{"workspace_bytes": 1 << 20}],
                "inductor memory": [{"workspace_bytes": 2 << 20}],
            }
        },
        "depth": depth,
    }


def test_verdicts_of_canned_results():
    met = {verdict.figure: verdict for verdict in targets.verdicts(canned())}
    lead = met["steady state: best Inductor variant / ours"]
    assert (lead.measured, lead.met) == ("mean 1.43 ×, worst 1.43 × (a f32)", True)
    cold = met["first output, cold / `aot_eager`"]
    assert (cold.measured, cold.met) == ("mean 1.20 ×, worst 1.20 × (a f32)", True)
    assert met["first output, cold: Inductor cold / ours"].met is True
    assert met["first output, cold / OpenVINO"].met is None
    assert met["first output, store warm / Dynamo only"].met is True
    share = "share of the measured multiply-add peak"
    products, convolutions = met[f"{share}, f32, products"], met[f"{share}, f32, convolutions"]
    assert (products.measured, products.met) == ("mean 86%, worst 86% (bert-base f32)", True)
    assert (convolutions.measured, convolutions.met) == (
        "mean 79%, worst 79% (resnet50 f32)",
        False,
    )
    assert met[f"{share}, bf16, products"].met is None
    container = "first output, fresh container without a compiler"
    assert met[f"{container} / Dynamo only"].measured == "mean 1.02 ×, worst 1.02 × (a f32)"
    assert met[f"{container}: Inductor with mega-cache / ours"].met is True
    assert met["program fetch: key, lookup, verify, load (BERT-base)"].measured == "4.5 ms"
    overhead = met["overhead of one call"]
    assert overhead.measured == "20.5 µs, of them 4.0 in the one launch (call of 200 tensors f32)"
    assert overhead.met is False
    assert met["recipe workspace / peak of Inductor's buffers"].met is True
    depth = met["compile cost with depth (12 → 48 layers)"]
    assert depth.measured == (
        "compile time ~ n^1.00, first output ~ n^0.03, recipe bytes ~ n^1.00, code bytes ~ n^0.00"
    )
    assert depth.met is True


def test_the_limit_of_a_lead():
    """How far ahead of the fastest peer a program at the machine's limit would be."""
    models: figures.Results = {
        "a f32": {name: [{"steady_ms": 24.0}] for name in (*figures.RUNTIMES, "inductor")}
    }
    *_, row = tables.limit_table({"a f32": {"hpu peak": [limits(share=0.8)]}}, models)
    assert row.endswith("| 16.0 | 20.0 | 0.80 | 1.50 |")


def test_the_lead_is_over_the_fastest_of_all():
    """A runtime in f32 stands beside a bf16 row too."""

    def steady(ms):
        return [{"steady_ms": ms}]

    results = {
        "a f32": {"inductor": steady(30.0), "onnxruntime": steady(24.0), "hpu warm": steady(20.0)},
        "a bf16": {"inductor": steady(28.0), "hpu warm": steady(10.0)},
        "b bf16": {"openvino importer": steady(9.0), "inductor": steady(11.0)},
        "c f32": {"inductor": steady(11.0), "hpu warm": steady(10.0)},
    }
    results["b bf16"]["hpu warm"] = steady(10.0)
    for row in ("a f32", "b bf16"):  # one that failed has been run
        for contender in figures.RUNTIMES:
            results[row].setdefault(contender, [{"failure": "no"}])
    assert figures.best_peer(results, "a bf16") == ("onnxruntime", 24.0)
    assert figures.leads_over_peers(results) == pytest.approx(
        {"a f32": 1.2, "a bf16": 2.4, "b bf16": 0.9}
    )
    assert figures.best_peer(results, "c f32") is None
    assert set(figures.leads(results)) == {"a f32", "a bf16", "b bf16", "c f32"}


def test_what_was_measured_of_some_models_only_is_not_met():
    row = {"inductor": steady(30.0), "hpu cold": steady(20.0)}
    rows = {f"{case} {dtype}": row for case in plan.SECTIONS["training"].cases or ()
            for dtype in ("f32", "bf16")}  # fmt: skip

    def verdict(results):
        found = {v.figure: v for v in targets.verdicts({"training": results})}
        return found["training step: Inductor / ours"]

    assert verdict(rows).met is True
    some = verdict({"mlp f32": row})
    assert (some.met, some.measured) == (
        None, "mean 1.50 ×, worst 1.50 × (mlp f32); 1 of 14 rows"
    )  # fmt: skip
    slower = {"inductor": steady(20.0), "hpu cold": steady(20.0)}
    assert verdict({"mlp f32": slower}).met is False


def test_code_that_grows_with_depth_misses_the_target():
    sections = canned()
    sections["depth"]["bert 48 layers f32"]["hpu cold"][0]["code_bytes"] = 10000
    assert targets.verdicts(sections)[-1].met is False


def test_tables_of_canned_results():
    lines = tables.page(canned())
    text = "\n".join(lines)
    header = "| model | CPU eager | inductor | openvino | hpu | x eager | x best Inductor |"
    assert f"{header} x best of all |" in lines
    cells = "| a f32 | 40.0 (39.0) | 30.0 (29.0) | - | 21.0 (18.0) | 1.90 | 1.43 |"
    assert f"{cells} - |" in lines  # not all peers have been run
    assert "| a f32 | 1.20 | 5.00 | - | 1.08 | - |" in lines
    assert "| a f32 | 1 | 1 | 0 | 2.0e-06 | - | 1.0e-06 | - | - | - | - | - |" in lines
    limit = "| 22.3 | 233 | {} | 438 | 40.0 | 16.0 | 20.0 | 0.80 | {} |"
    assert "| a f32 " + limit.format("90%", "-") in lines  # not all peers were run
    assert "| bert-base f32 " + limit.format("86%", "-") in lines
    assert "| a f32 | 1024 | 2048 | 0.50 |" in lines
    assert "- openvino: `KeyError: torch.bfloat16` (models: a f32)" in lines
    assert "Growth with the number of layers: compile time n^1.00" in text
    for line in lines:
        if line.startswith("| a f32"):
            header = next(
                h for h in reversed(lines[: lines.index(line)]) if h.startswith("| model")
            )
            assert line.count("|") == header.count("|")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0312, "0.031"), (0.5, "0.50"), (9.994, "9.99"), (47.06, "47.1")],
)
def test_number(value, text):
    assert tables.number(value) == text


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
    kept = {"about": {"models": {"cpu": "x"}}, "sections": canned()}
    text = compare.compact(kept)
    assert json.loads(text) == kept
    assert '   "dynamo only": [{"first_ms": 1000.0}],' in text.splitlines()


def test_documents_keep_what_is_outside_the_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("head\n<!-- benchmarks -->\nold\n<!-- /benchmarks -->\ntail\n")
    compare.write_between_markers(page, "new")
    assert page.read_text() == "head\n<!-- benchmarks -->\nnew\n<!-- /benchmarks -->\ntail\n"
    page.write_text("no markers\n")
    with pytest.raises(SystemExit, match="has no <!-- benchmarks -->"):
        compare.write_between_markers(page, "new")


def test_a_ratio_of_nothing_is_named_beside_the_mean():
    runs = {
        "none": {"hpu memory": [{"workspace_bytes": 0}]},
        "half": {"hpu memory": [{"workspace_bytes": 5}]},
    }
    for by in runs.values():
        by["inductor memory"] = [{"workspace_bytes": 10}]
    verdict = {v.figure: v for v in targets.verdicts({"workspace": runs})}[
        "recipe workspace / peak of Inductor's buffers"
    ]
    assert verdict.measured == "mean 0.50 × (1 of 2: 0), worst 0.50 × (half)"


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
