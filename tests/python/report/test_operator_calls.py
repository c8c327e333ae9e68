"""Operators outside of graphs in a report: their calls by way, their programs, and lines."""

from __future__ import annotations

import sys

import pytest
import torch
from eager_case import needs_direct_calls, place_on_cpu
from lazy_case import lazy_mode
from torch.profiler import ProfilerActivity

from habana_frameworks.torch import dynamo, native
from habana_frameworks.torch.dynamo.records import operators, records
from habana_frameworks.torch.dynamo.records.operators import OperatorCalls
from habana_frameworks.torch.report.collect import collect
from habana_frameworks.torch.report.recording import record
from habana_frameworks.torch.utils import profiler

_torch = native.torch_module()


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    records.reset()
    _torch.forget_call_programs()


def line(above: int = 0) -> str:
    return f"{__file__}:{sys._getframe(1).f_lineno - above}"


def called(found: list[OperatorCalls], name: str) -> OperatorCalls:
    return next((row for row in found if row.operator == name), OperatorCalls(name))


def test_recipes_have_programs_and_lines() -> None:
    x = torch.ones(3, 5, device="hpu")
    with place_on_cpu("none"):
        for _ in range(3):
            torch.exp(x), (first := line())
        torch.exp(x[:2]), (second := line())
    found = called(dynamo.report().operators, "exp")
    assert (found.recipes, found.direct, found.fallbacks, found.programs) == (4, 0, 0, 2)
    assert found.lines == [first, second]
    assert found.program_ms > 0
    text = f"exp: 4 recipe, 0 direct, 0 fallback calls; 2 programs ({first}, {second})"
    assert text in str(dynamo.report())
    assert dynamo.report().as_dict()["operators"][0]["operator"] == "exp"


@needs_direct_calls
def test_direct_calls_have_no_programs() -> None:
    torch.exp(torch.ones(3, 5, device="hpu"))
    found = called(dynamo.report().operators, "exp")
    assert (found.recipes, found.direct, found.fallbacks, found.programs) == (0, 1, 0, 0)


def test_fallbacks() -> None:
    torch.lgamma(torch.ones(3, 5, device="hpu"))
    found = called(dynamo.report().operators, "lgamma")
    assert (found.recipes, found.direct, found.fallbacks, found.programs) == (0, 0, 1, 0)


def test_calls_in_recordings_are_recipes() -> None:
    x = torch.ones(3, 6, device="hpu")
    with lazy_mode():
        torch.exp(x).sin().cpu()
    report = dynamo.report()
    for name in ("exp", "sin"):
        found = called(report.operators, name)
        assert (found.recipes, found.programs) == (1, 0)
    assert report.graphs[-1].name.startswith("recording_")


def test_a_recorded_report_begins_with_nothing() -> None:
    x = torch.ones(3, 7, device="hpu")
    with place_on_cpu("none"):
        torch.exp(x)
        with record() as recording:
            torch.exp(x)
            torch.sin(x)
    document = collect("two calls", recording)
    assert [(row.operator, row.recipes, row.programs) for row in document.operators] == [
        ("exp", 1, 0),
        ("sin", 1, 1),
    ]
    assert document.as_dict()["operators"][1]["lines"] == document.operators[1].lines


def test_most_calls_first_and_no_more_than_fit() -> None:
    rows = [OperatorCalls(f"op{i}", recipes=100 - i) for i in range(40)]
    text = str(records.Report([], operators=rows))
    assert "op0: 100 recipe" in text
    assert "op32:" not in text
    assert "and 8 operators with fewer calls" in text


def test_counts_that_were_set_to_zero() -> None:
    before = {"exp": OperatorCalls("exp", recipes=5)}
    _torch.reset_op_counts()
    torch.exp(torch.ones(3, 5, device="hpu"))
    assert called(operators.since(before), "exp").calls == 1


def test_profilers_name_recipes_of_operators_and_recordings() -> None:
    x = torch.ones(3, 8, device="hpu")
    with place_on_cpu("none"), profiler.profile() as trace:
        activities = [ProfilerActivity.CPU, ProfilerActivity.HPU]
        with torch.profiler.profile(activities=activities) as prof:
            torch.exp(x)
            with lazy_mode():
                torch.sin(x).cpu()
    recording = dynamo.report().graphs[-1].name
    names = ["eager exp", recording]
    programs = [e.name for e in prof.events() if e.name.startswith("hpu::program ")]
    assert programs == [f"hpu::program {name}" for name in names]
    ranges = [r["name"] for r in trace.records if r["name"].startswith("program ")]
    assert ranges == [f"program {name}" for name in names]
