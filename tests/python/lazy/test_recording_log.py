"""Lines about recordings in the device's log: module bit 0x20 of PT_HPU_LOG_MOD_MASK."""

from __future__ import annotations

import re

import pytest
import torch
from lazy_case import lazy_mode, mark_step

from habana_frameworks.torch import hpu, native
from habana_frameworks.torch.report.collect import collect
from habana_frameworks.torch.report.recording import record

_torch = native.torch_module()
_DEBUG, _TRACE = "8", "4"


@pytest.fixture
def lines(monkeypatch, capfd):
    """lines(kinds) switches the log on; lines() returns what has been written since."""

    def log(kinds: str | None = None) -> list[str]:
        if kinds is None:
            return capfd.readouterr().err.splitlines()
        monkeypatch.setenv("ENABLE_CONSOLE", "true")
        monkeypatch.setenv("PT_HPU_LOG_MOD_MASK", "20")
        monkeypatch.setenv("PT_HPU_LOG_TYPE_MASK", kinds)
        _torch.reload_log_settings()
        return log()

    _torch.forget_call_programs()
    yield log
    monkeypatch.undo()
    _torch.reload_log_settings()


def numbered(lines: list[str]) -> list[str]:
    """The lines without the numbers of recordings, captures and streams."""
    return [re.sub(r"(recording_|capture |stream )\d+", r"\1N", line) for line in lines]


def test_flushed_compiled_replayed(lines) -> None:
    x = torch.ones(3, 31, device="hpu")
    with lazy_mode():
        lines(_DEBUG)
        (x.exp() + 1).cpu()
        assert numbered(lines()) == [
            "flushed 2 calls of stream N: a copy from or to the CPU",
            "compiled recording_N of 2 calls",
        ]
        y = x.exp() + 1
        mark_step()
        assert numbered(lines()) == [
            "flushed 2 calls of stream N: mark_step()",
            "replayed recording_N of 2 calls",
        ]
        y.exp(), y.lgamma()
        told = numbered(lines())
        assert re.fullmatch(r"flushed 1 calls of stream N: aten::lgamma \(.+\)", told[0]), told
        x.sin()
        torch.hpu.synchronize()
        assert (
            numbered(lines())[0] == "flushed 1 calls of stream N: a point of the stream is needed"
        )


def test_recorded(lines) -> None:
    x = torch.ones(3, 32, device="hpu")
    with lazy_mode():
        lines(_TRACE)
        y = x.exp()
        y.sin()
        assert numbered(lines()) == [
            "recorded call 1 of stream N: aten::exp",
            "recorded call 2 of stream N: aten::sin",
        ]


def test_one_by_one(lines) -> None:
    with lazy_mode():
        for size in range(1, 8):
            (torch.ones(size, device="hpu") + 1).cpu()
        lines(_DEBUG)
        (torch.ones(9, device="hpu") + 1).cpu()
        told = "runs 2 calls one by one: recordings have not come again, and this one is new"
        assert lines()[1] == told


def test_captures(lines) -> None:
    x = torch.ones(3, 33, device="hpu")
    lines(_DEBUG)
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        y = x.exp()
    graph.replay()
    assert numbered(lines()) == [
        "began capture N on stream N",
        "compiled recording_N of 1 captured calls",
        "replayed recording_N",  # the end of the capture runs it
        "replayed recording_N",
    ]
    del y
    other = torch.hpu.HPUGraph()
    with pytest.raises(RuntimeError, match="cannot be part of it"), torch.hpu.graph(other):
        x.exp().cpu()
    gave_up = numbered(lines())[1]
    assert gave_up.startswith("gave up capture N: a copy from or to the CPU at ")
    assert "test_recording_log.py:" in gave_up


def test_off_by_default(lines, monkeypatch) -> None:
    lines(_DEBUG)
    for name in ("PT_HPU_LOG_MOD_MASK", "PT_HPU_LOG_TYPE_MASK"):
        monkeypatch.delenv(name)
    _torch.reload_log_settings()
    x = torch.ones(3, 34, device="hpu")
    with lazy_mode():
        x.exp().cpu()
    assert lines() == []


def test_the_report_has_the_first_run_of_a_recording():
    x = torch.ones(300, 300, device="hpu")
    with lazy_mode(), record() as recording:
        for _ in range(3):
            y = (x @ x).tanh() * 2.25
            mark_step()
        hpu.synchronize()
    assert y[0, 0].item() == 2.25
    (graph,) = collect("a recording", recording).graphs
    assert {stage.name: stage.ms for stage in graph.stages}["first run"] > 0
    assert re.search(r"lazy_case\.py:\d+", graph.source), "the line that needed it"
