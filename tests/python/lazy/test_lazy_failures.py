"""Faults in lazy mode: wrong arguments, failed launches, missing memory and programs."""

from __future__ import annotations

import copy
import logging

import pytest
import torch
from both_modes import close, matrix
from lazy_case import Counts, lazy_mode, mark_step
from processes import output_of

from habana_frameworks.torch.dynamo.programs import binding
from habana_frameworks.torch.lazy import recordings


@pytest.fixture(autouse=True)
def _in_lazy_mode():
    with lazy_mode():
        yield


def test_an_operator_without_a_rule_is_said_once_for_all_recordings(caplog, monkeypatch):
    monkeypatch.setattr(binding, "_warned", set())  # as in a process that has said nothing yet

    def values(x: torch.Tensor) -> list[float]:
        with lazy_mode():
            y = (x.double() + 1).float() * 2
            mark_step()
            return y.tolist()

    caplog.set_level("WARNING")
    for size in (17, 19):
        assert values(torch.ones(size, device="hpu")) == [4.0] * size
    about = [line for line in caplog.messages if "aten::add" in line and "f64" in line]
    assert len(about) == 1, caplog.messages


def test_a_recording_without_a_program_runs_call_by_call(monkeypatch):
    refused = recordings.Answer(None, "this test says so")
    monkeypatch.setattr(recordings, "compile_recording", lambda *_: refused)
    counts = Counts()
    x = matrix(5, 3).to("hpu")
    y = (x.t() @ x * 1.375).transpose(0, 1)
    y[0].add_(1)
    wanted = (matrix(5, 3).t() @ matrix(5, 3) * 1.375).transpose(0, 1)
    wanted[0].add_(1)
    close(y, wanted)
    assert (counts.runs, counts.runs_by_call) == (1, 1)


@pytest.mark.parametrize(
    "module",
    [
        torch.nn.BatchNorm1d(3),
        torch.nn.LayerNorm(3),
        torch.nn.GroupNorm(1, 3),
        torch.nn.Linear(3, 2),
    ],
    ids=lambda module: type(module).__name__,
)
def test_gradients_that_nobody_needs_run_call_by_call(monkeypatch, module):
    """CPU kernels give nothing for a first layer's input where shape functions give a tensor."""
    refused = recordings.Answer(None, "this test says so")
    monkeypatch.setattr(recordings, "compile_recording", lambda *_: refused)
    counts = Counts()
    ours = copy.deepcopy(module).to("hpu")
    ours(matrix(5, 3).to("hpu")).pow(2).sum().backward()
    theirs = copy.deepcopy(module)
    theirs(matrix(5, 3)).pow(2).sum().backward()
    for found, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(found.grad, wanted.grad)
    assert counts.runs_by_call > 0


def test_a_recording_whose_capture_fails_runs_call_by_call(monkeypatch):
    def fail(*_):
        raise ValueError("this test says so")

    y = matrix(3).to("hpu") * 1.625
    with monkeypatch.context() as patch:
        patch.setattr(recordings, "compile_recording", fail)
        close(y, matrix(3) * 1.625)


def test_a_recording_that_is_interrupted_loses_its_results_and_nothing_else(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt("this test says so")

    x = matrix(3).to("hpu")
    y = x * 1.625
    with monkeypatch.context() as patch:
        patch.setattr(recordings, "compile_recording", interrupt)
        with pytest.raises(KeyboardInterrupt, match="this test says so"):
            y.cpu()
    with pytest.raises(RuntimeError, match="has no value: .* failed: .*this test says so"):
        y.cpu()
    with pytest.raises(RuntimeError, match="has no value"):
        (y + 1).cpu()
    close(x * 1.625, matrix(3) * 1.625)


def test_bad_arguments_raise_where_they_are_given(caplog):
    x = torch.ones(2, 3, device="hpu")
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        x @ x
    with pytest.raises(RuntimeError, match="at least two devices"):
        torch.ones(2, 3).add_(x)
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(3, dtype=torch.int64, device="hpu").add_(0.5)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    close(x, torch.ones(2, 3))


@pytest.mark.parametrize("too_large", ["a result", "memory without a call"])
def test_out_of_memory_costs_what_is_too_large(too_large):
    x = matrix(4).to("hpu") + 1
    if too_large == "a result":
        wide = torch.ones(1 << 18, 1, device="hpu") + torch.ones(1, 1 << 18, device="hpu")
    else:
        wide = torch.empty(1 << 40, device="hpu").fill_(1)
    y = x * 2
    with pytest.raises(torch.OutOfMemoryError, match="hpu out of memory: tried to allocate"):
        mark_step()
    with pytest.raises(RuntimeError, match="has no value|out of memory"):
        wide[0].sum().item()
    close(y, (matrix(4) + 1) * 2)
    close(x, matrix(4) + 1)


OVERLAPS = {
    "expanded": lambda d: torch.zeros(1, 3, device=d).expand(2, 3).add_(1),
    "in part": lambda d: (lambda x: x[1:].add_(x[:-1]))(torch.zeros(6, device=d) + 1),
    "out=": lambda d: (lambda x: torch.add(x[1:], 1, out=x[:-1]))(torch.zeros(6, device=d) + 1),
}


@pytest.mark.parametrize("write", OVERLAPS.values(), ids=OVERLAPS)
def test_a_write_to_memory_that_overlaps_is_refused_at_once(write):
    x = matrix(3).to("hpu") + 1
    for device in ("cpu", "hpu"):
        with pytest.raises(RuntimeError, match="single memory location"):
            write(device)
    close(x, matrix(3) + 1)


def test_without_a_compile_server_it_is_not_asked_at_every_step(monkeypatch):
    asked = []

    def refuse(*_):
        asked.append(1)
        return recordings.Answer(None, "this test says so", lasting=False)

    monkeypatch.setattr(recordings, "compile_recording", refuse)
    for _ in range(4):
        close(matrix(3).to("hpu") * 1.0625 + 2, matrix(3) * 1.0625 + 2)
    assert len(asked) == 1


def test_a_capture_that_is_collected_while_a_program_is_made():
    """Garbage collection may finalize it in the thread that holds the recorder's lock."""
    code = """
import torch, habana_frameworks.torch as ht
from habana_frameworks.torch.lazy import recordings

given_up = [torch.hpu.HPUGraph()]
with torch.hpu.stream(torch.hpu.Stream()):
    given_up[0].capture_begin()
    torch.ones(3, device="hpu") + 1
compile_recording = recordings.compile_recording

def collect_and_compile(*recording):
    given_up.clear()
    return compile_recording(*recording)

recordings.compile_recording = collect_and_compile
y = torch.ones(3, device="hpu") * 2
ht.core.mark_step()
print(y.tolist(), given_up)
"""
    done = output_of(code, PT_HPU_LAZY_MODE="1", timeout=120)
    assert done.stdout == "[2.0, 2.0, 2.0] []\n"
