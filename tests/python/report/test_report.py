"""The contents of a report: breaks, guards, eager segments, lookups, times, kernels, memory."""

from __future__ import annotations

import dataclasses
import html
import json
import re

import browser
import pytest
import torch
from eventually import wait_until
from helpers import fresh_process

from habana_frameworks.torch import dynamo, hpu
from habana_frameworks.torch.dynamo.programs.service import service
from habana_frameworks.torch.dynamo.records import graph_watch, records
from habana_frameworks.torch.dynamo.records.records import GraphRecord
from habana_frameworks.torch.report import cures, memory_sampler, timeline
from habana_frameworks.torch.report.collect import collect
from habana_frameworks.torch.report.lookups import Known, lookup
from habana_frameworks.torch.report.memory_sampler import MemorySampler
from habana_frameworks.torch.report.page import to_html
from habana_frameworks.torch.report.recording import record
from habana_frameworks.torch.utils.profiler.profile import Profile

MIB = 1 << 20


def branching(x, w):
    y = torch.relu(x @ w)
    if y.sum() > 0:
        y = y / y.norm()
    return torch.lgamma(y.abs() + 1).softmax(-1)


def conditional(v):
    """An operation on functions: runs eagerly."""
    return torch.cond(v.sum() > 0, torch.sin, torch.cos, (v,))


def compiled(function):
    return torch.compile(function, backend="hpu_backend")


@pytest.fixture(scope="module")
def recorded():
    """A recording with a break, an unsupported operator, two shapes, a graph that runs eagerly, and
    64 MiB held."""
    fresh_process()
    service.forget_programs()
    w = torch.randn(64, 32).to("hpu")
    take = MemorySampler._take
    taken: list[int] = []

    def counted(sampler: MemorySampler) -> int:
        taken.append(take(sampler))
        return taken[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemorySampler, "_take", counted)
        with record() as recording:
            run = compiled(branching)
            with torch.no_grad():
                for rows in (8, 8, 9):
                    run(torch.randn(rows, 64).to("hpu"), w)
                held = torch.empty(64 * MIB, dtype=torch.uint8, device="hpu")
                before = len(taken)
                wait_until(lambda: len(taken) > before + 1, "one whole sample more")
                del held
            compiled(conditional)(torch.randn(3, device="hpu", requires_grad=True))
            hpu.synchronize()
    return collect("two shapes", recording)


def test_graphs(recorded):
    names = [(g.name, g.source.split(" ")[0], g.origin == "eager") for g in recorded.graphs]
    assert names == [
        ("graph_0", "branching", False),
        ("graph_1", "branching", False),
        ("graph_2", "branching", False),
        ("graph_3", "branching", False),
        ("graph_4", "conditional", True),
    ]
    assert all("(test_report.py:" in g.source for g in recorded.graphs)
    assert recorded.graphs[0].inputs == ["float32[8, 64]{64, 1}@hpu", "float32[64, 32]{32, 1}@hpu"]
    assert recorded.hits + recorded.misses == 4


def test_breaks_have_the_users_stack(recorded):
    (found,) = recorded.breaks
    assert (found.title, found.count) == ("Data-dependent branching", 2)
    frame = found.stack[-1]
    assert frame.file == __file__
    assert (frame.function, frame.code) == ("branching", "if y.sum() > 0:")
    assert found.hints == ["Compute both sides and choose with torch.where, or use torch.cond."]


def test_recompilations_name_the_guard(recorded):
    first = recorded.recompiles[0]
    assert first.function == "branching"
    assert first.place.startswith("test_report.py:")
    (guard,) = first.guards
    assert guard.endswith("/0: tensor 'x' size mismatch at index 0. expected 8, actual 9")
    assert first.cure.startswith("Each shape is a program")
    assert all(r.ms > 0 for r in recorded.recompiles)


def test_eager_segments_say_why_and_what_cures(recorded):
    first, second, whole = recorded.eager
    assert (first.graph, first.what, first.reason) == (
        "graph_1",
        "aten::lgamma",
        "no rule for this operator",
    )
    assert first.cure.startswith("No recipe holds this operator.")
    assert first.source.startswith("test_report.py:")
    assert first.source.endswith(" in branching")
    assert second.graph == "graph_3"
    assert (whole.what, whole.cure) == (
        "the whole graph",
        "Call functions of functions (torch.cond, while_loop), and activation checkpoints with "
        "random numbers in them, outside of what is compiled.",
    )
    (lgamma,) = [op for op in recorded.operators if op.operator == "lgamma"]
    assert (lgamma.recipes, lgamma.direct, lgamma.fallbacks) == (0, 0, 3)


def test_time_to_first_output_is_the_sum_of_its_stages(recorded):
    assert [s.name for s in recorded.stages] == [
        "Dynamo",
        "key",
        "fetch",
        "capture",
        "compile",
        "load",
        "first run",
    ]
    assert sum(s.ms for s in recorded.stages) == pytest.approx(recorded.first_output_ms)
    for graph in recorded.graphs[:4]:
        parts = {s.name: s.ms for s in graph.stages}
        assert sum(parts.values()) == pytest.approx(graph.first_output_ms)
        assert all(parts[name] > 0 for name in ("Dynamo", "key", "load", "first run"))
    assert recorded.first_output_ms < recorded.duration_ms


def test_recipes_have_kernels_in_time(recorded):
    of_first = [r for r in recorded.recipes if r.graph == "graph_0"]
    assert [r.launches for r in of_first] == [2]
    (recipe,) = of_first
    product = recipe.kernels[0]
    assert product.nodes[0].startswith("matmul/gemm/")
    assert product.engine == "mme"
    assert product.flops >= 2 * 8 * 64 * 32
    assert product.bytes >= 4 * (8 * 64 + 64 * 32)
    assert 0 < product.peak_share < 1.5
    assert all(0 <= k.start_ms <= k.start_ms + k.ms <= recipe.ms + 1e-6 for k in recipe.kernels)
    assert recorded.peak.flops_per_second > 1e9


def test_memory_over_time(recorded):
    memory = recorded.memory
    assert memory.peak_in_use >= 64 * MIB
    assert max(s.in_use for s in memory.samples) >= 64 * MIB
    assert memory.samples[-1].in_use < 64 * MIB
    assert [s.at_ms for s in memory.samples] == sorted(s.at_ms for s in memory.samples)
    assert memory.limit > memory.peak_in_use


def test_drawings_before_and_after_passes(recorded):
    before, after = recorded.graphs[1].drawings
    assert (before.stage, after.stage) == ("as captured", "after all passes")
    assert "aten.lgamma" in [n.op for n in before.nodes]
    assert [n.kind for n in after.nodes if n.op == "aten.lgamma"] == ["eager"]
    assert recorded.graphs[4].drawings == []


def test_page_shows_the_figures_of_the_document(recorded, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(to_html(recorded))
    page = browser.Page(browser.dom(path.as_uri()))
    assert page.figure("graphs") == "5"
    assert page.figure("breaks") == "1"
    assert page.figure("eager") == "3"
    assert int(page.figure("hits")) == recorded.hits
    assert int(page.figure("misses")) == recorded.misses
    assert page.figure("memory").endswith(" MiB")
    assert float(page.figure("memory").split()[0]) >= 64
    assert "aten::lgamma" in page.texts("code")
    assert len(page.texts("details", class_="graphs")) == 5
    assert len(page.texts("details", class_="recipes")) == len(recorded.recipes)


def test_second_time_is_hits(recorded):
    fresh_process()
    service.forget_programs()
    with record() as recording, torch.no_grad():
        compiled(branching)(torch.randn(8, 64).to("hpu"), torch.randn(64, 32).to("hpu"))
    again = collect("again", recording)
    assert (again.hits, again.misses) == (2, 0)
    assert [g.lookup.sentence for g in again.graphs] == ["The store had its program."] * 2
    assert [[d.stage for d in g.drawings] for g in again.graphs] == [
        ["as captured", "after all passes"]
    ] * 2
    assert again.recompiles == []


def test_without_a_recording_the_page_says_what_is_missing():
    fresh_process()
    with torch.no_grad():
        compiled(lambda v: v + 1)(torch.ones(4, device="hpu"))
    told = collect("now", None)
    assert told.recorded is False
    assert told.memory is None
    assert told.recipes == []
    assert told.notes[0].startswith("Nothing was recorded")
    assert [g.no_drawing for g in told.graphs] == ["graphs are drawn while a report is recorded"]
    assert "<iframe" in dynamo.report()._repr_html_()


def test_notebook_shows_what_was_recorded():
    fresh_process()
    with dynamo.recording(), torch.no_grad():
        compiled(lambda v: (v @ v).relu())(torch.ones(8, 8, device="hpu"))
    shown = html.unescape(dynamo.report()._repr_html_())
    (embedded,) = re.findall(r'id="document">(.*?)</script>', shown, re.DOTALL)
    told = json.loads(embedded)
    assert [g["name"] for g in told["graphs"]] == ["graph_0"]
    assert told["recipes"][0]["kernels"][0]["nodes"][0].startswith("matmul/")
    assert told["memory"]["samples"]
    assert [d["stage"] for d in told["graphs"][0]["drawings"]] == [
        "as captured",
        "after all passes",
    ]


def test_one_recording_at_a_time():
    with dynamo.recording(), pytest.raises(RuntimeError, match="one at a time"), record():
        pass
    with dynamo.recording():  # the first one has ended
        pass
    assert graph_watch._watchers == ()


def test_nobody_watches_nothing_is_captured(monkeypatch):
    monkeypatch.delenv("GRAPH_VISUALIZATION", raising=False)
    graph_watch.show(GraphRecord("g"), lambda: pytest.fail("captured for nobody"))


def test_nearest_known_graph_explains_a_miss():
    known = [
        Known("far", "f" * 64, [("input 0", "[9]"), ("graph", "g2"), ("device", "gaudi3")]),
        Known("near", "e" * 64, [("input 0", "[9]"), ("graph", "g1"), ("device", "gaudi2")]),
    ]
    asked = GraphRecord(
        "g",
        origin="compiled",
        front_end_key="a" * 64,
        factors=[("input 0", "[8]"), ("graph", "g1"), ("device", "gaudi2")],
    )
    found = lookup(asked, known)
    assert not found.hit
    assert found.nearest == "near (eeeeeeeeeeee)"
    assert [(d.factor, d.ours, d.theirs) for d in found.differences] == [("input 0", "[8]", "[9]")]
    assert lookup(asked, []).sentence.endswith("first graph that the store and this process see.")
    hit = lookup(dataclasses.replace(asked, origin="store"), known)
    assert (hit.hit, hit.sentence, hit.differences) == (True, "The store had its program.", [])
    other_key = lookup(dataclasses.replace(asked, origin="store", capture_ms=3.0), known)
    assert other_key.hit
    assert "another key" in other_key.sentence
    assert other_key.nearest == "near (eeeeeeeeeeee)"
    anew = lookup(dataclasses.replace(asked, unusable="blob 1 is damaged"), known)
    assert anew.sentence == "It was compiled anew: blob 1 is damaged"


@pytest.mark.parametrize(
    ("reason", "cure"),
    [
        ("the graph has a higher-order operation (a nested graph)", "Call functions of functions"),
        ("no input is on hpu", "Move the model and its inputs to the device"),
        ("option use_compiled_recipes is off", "Switch option use_compiled_recipes on"),
        ("no compile server: no such file", "hpu-compile status names what is wrong"),
        ("the device has no f64", "Convert f64 to a type that the device has"),
        ("something new", "docs/ops.md lists what becomes a recipe"),
    ],
)
def test_cures(reason, cure):
    assert cures.for_eager(reason).startswith(cure)


def test_samples_are_thinned(monkeypatch):
    monkeypatch.setattr(memory_sampler, "MAX_SAMPLES", 8)
    readings: list[int] = []

    def read() -> tuple[int, int, int]:
        readings.append(len(readings) + 1)
        return readings[-1], 0, 0

    sampler = MemorySampler(read)
    sampler.start()
    wait_until(lambda: len(readings) > 16)  # half of the first 8 stay, then half of 4 and 4 more
    sampler.stop()
    result = sampler.result(limit=7)
    assert result.interval_ms >= 8  # it began with 2
    assert 4 <= len(result.samples) <= 9
    assert result.samples[0].in_use == 1
    assert [s.in_use for s in result.samples] == sorted(s.in_use for s in result.samples)
    assert result.limit == 7


def test_allocators_peak_between_samples_counts():
    peak = 100  # from before the recording
    sampler = MemorySampler(lambda: (10, 0, peak))
    sampler.start()
    peak = 500
    sampler.stop()
    assert sampler.result(limit=0).peak_in_use == 500
    steady = MemorySampler(lambda: (10, 0, peak))
    steady.start()
    steady.stop()
    assert steady.result(limit=0).peak_in_use == 10


def interval(cat, name, start, duration, **args):
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "tid": 1 if cat == "host" else 0,
        "start_ns": start,
        "duration_ns": duration,
        "recipe": name,
        "args": args,
    }


def test_first_runs_end_with_the_device():
    profile = Profile()
    profile.records = [
        interval("host", "hpu::prepare g", 0, 100),
        interval("host", "program g", 200, 50),
        interval("host", "hpu::prepare g", 1000, 100),  # another shape
        interval("host", "program g", 1200, 50),
        interval("host", "program g", 1500, 50),
        interval("launch", "r1", 240, 360, work=1, kernels=0, host_thread=1, queued_ns=210),
        interval("launch", "r2", 1600, 10, work=2, kernels=0, host_thread=1, queued_ns=1510),
        interval("launch", "r3", 1700, 10, work=3, kernels=0, host_thread=2, queued_ns=1510),
    ]
    # r2 and r3 were queued by the third call and by another thread.
    assert timeline.first_runs(profile) == {"g": [400e-6, 50e-6]}
    behind = Profile()
    behind.records = [
        interval("host", "hpu::prepare h", 0, 10),
        interval("host", "program g", 20, 10),
        interval("host", "program h", 40, 10),
        interval("launch", "r1", 25, 475, work=1, kernels=0, host_thread=1, queued_ns=22),
        interval("launch", "r2", 500, 30, work=2, kernels=0, host_thread=1, queued_ns=45),
    ]
    assert timeline.first_runs(behind) == {"h": [30e-6]}
    behind.records[2]["duration_ns"] = 500  # until 540: the call waited as well
    assert timeline.first_runs(behind) == {"h": [40e-6]}
    timelines, left_out = timeline.recipe_timelines(profile, None)
    assert [(t.recipe, t.graph) for t in timelines] == [("r1", "g"), ("r2", "g"), ("r3", "")]
    assert left_out == 0


def test_reset_within_a_recording():
    with record() as recording, torch.no_grad():
        compiled(lambda v: v + 2)(torch.ones(4, device="hpu"))
        records.reset()
        torch._dynamo.reset()
        compiled(lambda v: v + 3)(torch.ones(4, device="hpu"))
    assert [g.name for g in collect("reset", recording).graphs] == ["graph_0"]
