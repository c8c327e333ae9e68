"""Targets and tables of benchmarks/, from canned results."""

from __future__ import annotations

import sys

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import figures
import plan
import tables
import targets


def steady(*milliseconds: float) -> list[figures.Run]:
    return [{"steady_ms": value, "steady_min_ms": value - 1} for value in milliseconds]


def first(milliseconds: float) -> list[figures.Run]:
    return [{"first_ms": milliseconds}]


def test_verdicts_say_the_worst_case():
    verdict = targets.at_most("f", "≤ 1.25", {"a": 1.0, "b": 1.5625}, 1.25)
    assert verdict.row() == "| f | ≤ 1.25 | mean 1.25 ×, worst 1.56 × (b) | **no** |"
    assert targets.at_most("f", "≤ 2", {"a": 1.0, "b": 1.5625}, 2.0).met is True
    assert targets.at_least("f", "≥ 4", {"a": 4.0, "b": 9.0}, 4.0).met is True
    assert targets.at_least("f", "≥ 4", {"a": 4.0, "b": 9.0}, 4.0, mean=7.0).met is False
    assert targets.at_least("f", "≥ 4", {}, 4.0).row() == "| f | ≥ 4 | not measured | - |"


def test_all_targets_without_results_are_not_measured():
    rows = targets.verdicts({})
    assert len(rows) == 27
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


def test_how_steady_calls_are():
    even = {"over_best": 1.02, "cores_used": 0.985, "gave_way": 1, "interrupted": 0}
    uneven = even | {"over_best": 1.3, "cores_used": 0.9, "interrupted": 12.5}
    models: figures.Results = {
        "resnet50 f32": {"onnxruntime": [uneven], "hpu warm": [even]},
        "resnet50 b8 f32": {"hpu warm": [even]},
        "mlp f32": {"hpu warm": [uneven]},  # the targets do not include small programs
    }
    met = {v.figure: v for v in targets.verdicts({"models": models})}
    over = met["steady state: median of calls / their fastest 5 %, ResNet-50"]
    assert (over.measured, over.met) == ("mean 1.02 ×, worst 1.02 × (resnet50 f32)", True)
    used = met["steady state: processor time of all cores' time, ResNet-50"]
    assert (used.target, used.met) == ("≥ 98 %", True)
    assert tables.calls_table(models)[2:] == [
        "| resnet50 f32 | 1.30, 90% (1.00 + 12.5) | 1.02, 98% (1.00 + 0.000) |",
        "| resnet50 b8 f32 | - | 1.02, 98% (1.00 + 0.000) |",
        "| mlp f32 | - | 1.30, 90% (1.00 + 12.5) |",
    ]
    models["resnet50 bf16"] = {"hpu warm": [uneven]}
    met = {v.figure: v for v in targets.verdicts({"models": models})}
    assert not met[over.figure].met
    assert not met[used.figure].met


def test_the_limit_of_a_lead():
    """How far ahead of the fastest peer a program at the machine's limit would be."""
    models: figures.Results = {
        "a f32": {name: [{"steady_ms": 24.0}] for name in (*figures.RUNTIMES, "inductor")}
    }
    *_, row = tables.limit_table({"a f32": {"hpu peak": [limits(share=0.8)]}}, models)
    assert row.endswith("| 16.0 | 20.0 | 0.80 | 1.50 |")


def test_the_lead_is_over_the_fastest_of_all():
    """A runtime in f32 is compared with a bf16 row too."""

    def steady(ms):
        return [{"steady_ms": ms}]

    results = {
        "a f32": {"inductor": steady(30.0), "onnxruntime": steady(24.0), "hpu warm": steady(20.0)},
        "a bf16": {"inductor": steady(28.0), "hpu warm": steady(10.0)},
        "b bf16": {"openvino importer": steady(9.0), "inductor": steady(11.0)},
        "c f32": {"inductor": steady(11.0), "hpu warm": steady(10.0)},
    }
    results["b bf16"]["hpu warm"] = steady(10.0)
    for row in ("a f32", "b bf16"):  # a contender that failed counts as run
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
