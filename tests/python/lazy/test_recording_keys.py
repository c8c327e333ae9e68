"""Recordings have front-end keys, by which another process finds their programs (docs/cache_key.md,
docs/lazy.md)."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from contextlib import contextmanager

import pytest
import torch
from lazy_case import Counts, lazy_mode, mark_step
from processes import output_of
from torch import Tensor, nn

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.programs.explanation import FrozenMiss
from habana_frameworks.torch.dynamo.programs.service import NoProgram, service
from habana_frameworks.torch.dynamo.records.records import GraphRecord
from habana_frameworks.torch.dynamo.settings import config
from habana_frameworks.torch.internal.asked_errors import AskedForError
from habana_frameworks.torch.lazy import recordings

STEPS = """
import torch, habana_frameworks.torch as ht
from habana_frameworks.torch.dynamo import report

torch.manual_seed(3)
model = torch.nn.Sequential(
    torch.nn.Linear(12, 16), torch.nn.GELU(), torch.nn.Dropout(0.25), torch.nn.Linear(16, 4)
).to("hpu")
updates = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.ExponentialLR(updates, 0.9)
x, wanted = torch.randn(8, 12).to("hpu"), torch.randint(4, (8,)).to("hpu")
for _ in range(4):
    loss = torch.nn.functional.cross_entropy(model(x), wanted)
    loss.backward()
    ht.core.mark_step()
    updates.step()
    updates.zero_grad()
    schedule.step()
    ht.core.mark_step()
    print(loss.item())
with torch.no_grad():
    print(model(x).sum().item())
graphs = report().graphs
print(len(graphs), sorted({g.origin for g in graphs}), sum(g.capture_ms > 0 for g in graphs))
"""

CAPTURE = """
import torch, habana_frameworks.torch as ht
from habana_frameworks.torch.dynamo import report

x = torch.arange(6.0).to("hpu")
graph = ht.hpu.HPUGraph()
with ht.hpu.graph(graph):
    y = (x * 2 + 1).cumsum(0)
for first in (0.0, 5.0):
    x.copy_(torch.arange(first, first + 6))
    graph.replay()
    print(y.tolist())
(captured,) = [g for g in report().graphs if "recording" in g.name]
print(captured.origin, captured.capture_ms > 0)
"""


@contextmanager
def _new_process():
    """Lazy mode as in a process that knows no recording yet."""
    service.forget_programs()
    with lazy_mode():
        yield


def _names() -> set[str]:
    """The names of the graphs of this process, which no two recordings share."""
    return {record.name for record in report().graphs}


def _since(before: set[str]) -> list[GraphRecord]:
    """The records of later recordings. The oldest ones go when there are many."""
    return [record for record in report().graphs if record.name not in before]


def _run(function: Callable[[], Tensor | tuple[Tensor, ...]]):
    """Returns what the function computes in lazy mode, and the record of its recording. The
    function is called with nothing recorded before."""
    with _new_process():
        before = _names()
        counts = Counts()
        results = function()
        mark_step()
        assert counts.runs_by_call == 0
        (record,) = _since(before)
        made = results if isinstance(results, tuple) else (results,)
        return [tensor.detach().cpu() for tensor in made], record


def test_the_next_process_captures_no_step():
    first = output_of(STEPS, PT_HPU_LAZY_MODE="1").stdout.splitlines()
    again = output_of(STEPS, PT_HPU_LAZY_MODE="1").stdout.splitlines()
    assert again[:-1] == first[:-1], "the losses"
    count = first[-1].split()[0]
    assert first[-1] == f"{count} ['compiled'] {count}"
    assert again[-1] == f"{count} ['store'] 0"


def test_the_next_process_captures_no_graph_of_an_hpu_graph():
    first = output_of(CAPTURE, PT_HPU_LAZY_MODE="0").stdout.splitlines()
    again = output_of(CAPTURE, PT_HPU_LAZY_MODE="0").stdout.splitlines()
    assert first == [
        "[1.0, 4.0, 9.0, 16.0, 25.0, 36.0]",
        "[11.0, 24.0, 39.0, 56.0, 75.0, 96.0]",
        "compiled True",
    ]
    assert again == [*first[:2], "store False"]


def _variants() -> dict[str, Callable[[], Tensor | tuple[Tensor, ...]]]:
    """Functions whose recordings are alike but for one thing."""
    x = torch.arange(12.0).reshape(3, 4).to("hpu")
    changed = x.clone()
    w = torch.arange(4.0, 8.0).to("hpu")
    both = torch.cat([torch.arange(12.0), torch.arange(4.0, 8.0)]).to("hpu")
    longer = torch.arange(20.0).to("hpu")
    parameter = nn.Parameter(w.detach().clone())
    frozen = nn.Parameter(w.detach().clone())

    def held():
        y = x * 2.0
        return y + w, y

    def without_gradients():
        with torch.no_grad():
            return x * 2.0 + frozen

    def written():
        y = x + 0.0
        return y.mul_(2.0).add_(w)

    def in_place():
        changed.mul_(2.0)
        changed.add_(w)
        return changed

    def deterministic():
        torch.use_deterministic_algorithms(True)
        try:
            return x * 2.0 + w
        finally:
            torch.use_deterministic_algorithms(False)

    return {
        "a product and a sum": lambda: x * 2.0 + w,
        "another number": lambda: x * 3.0 + w,
        "another operator": lambda: x * 2.0 - w,
        "another order": lambda: (x + w) * 2.0,
        "other operands": lambda: w * 2.0 + x,
        "one operand twice": lambda: x * 2.0 + x,
        "other strides": lambda: x.t()[:3] * 2.0 + w[:3],
        "one row": lambda: x[:1] * 2.0 + w,
        "one storage": lambda: both[:12].view(3, 4) * 2.0 + both[12:],
        "parts that lie further apart": lambda: longer[:12].view(3, 4) * 2.0 + longer[16:20],
        "parts in another order": lambda: both[4:].view(3, 4) * 2.0 + both[:4],
        "overlapping columns": lambda: x[:2, :2] * 2.0 + x[:2, 1:3],
        "the next columns": lambda: x[:2, 1:3] * 2.0 + x[:2, 2:],
        "a parameter": lambda: x * 2.0 + parameter,
        "a parameter without gradients": without_gradients,
        "a held product": held,
        "a copy that is written": written,
        "written in place": in_place,
        "narrow": lambda: x.bfloat16() * 2.0 + w.bfloat16(),
        "on the CPU": lambda: x * 2.0 + torch.tensor(3.0),
        "deterministic": deterministic,
    }


def test_keys_tell_recordings_apart():
    keys: dict[str, str] = {}
    for name, function in _variants().items():
        results, record = _run(function)
        assert record.front_end_key, (name, record.reason)
        known = [other for other, key in keys.items() if key == record.front_end_key]
        assert not known, f"{name!r} has the key of {known}"
        keys[name] = record.front_end_key
        again, found = _run(_variants()[name])
        assert found.front_end_key == record.front_end_key, name
        assert (found.origin, found.capture_ms) == ("store", 0), name
        for one, other in itertools.zip_longest(results, again):
            assert torch.equal(one, other), name


def test_recordings_that_differ_in_places_alone_share_their_program():
    """An integer beside floats is one of them. A program that takes all of a storage, because parts
    overlap, has a key of its own in each place ("the next columns")."""
    pairs = {
        lambda x, w, _: x[:1] * 2.0 + w: lambda x, w, _: x[1:2] * 2.0 + w,
        lambda x, w, _: x.t()[:3] * 2.0 + w[:3]: lambda x, w, _: x.t()[1:] * 2.0 + w[1:],
        lambda x, w, _: x * 4.0 + w: lambda x, w, _: x * 4 + w,
        lambda x, w, _: x * 2.0 + w: lambda _, w, more: more[7:19].view(3, 4) * 2.0 + w,
        lambda x, *_: x[0] * 2.0 + x[2]: lambda *given: given[2][21:25] * 2.0 + given[2][29:33],
    }
    host = (torch.arange(12.0).view(3, 4), torch.arange(4.0, 8.0), torch.arange(40.0))
    given = [tensor.to("hpu") for tensor in host]
    for function, elsewhere in pairs.items():
        _, record = _run(functools.partial(function, *given))
        (result,), found = _run(functools.partial(elsewhere, *given))
        assert found.front_end_key == record.front_end_key
        assert (found.origin, found.capture_ms) == ("store", 0)
        assert torch.equal(result, elsewhere(*host))


@pytest.mark.parametrize("setting", ["matmul precision", "default type", "option"])
def test_what_a_capture_reads_is_in_the_key(setting, monkeypatch):
    x = torch.ones(3, 3, device="hpu")
    _, before = _run(lambda: x @ x)
    if setting == "matmul precision":
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    elif setting == "default type":
        monkeypatch.setattr(torch, "get_default_dtype", lambda: torch.float64)
    with config.patch(deterministic=setting == "option"):
        _, after = _run(lambda: x @ x)
    assert after.front_end_key != before.front_end_key


def test_numbers_that_are_inputs_are_not_in_the_key():
    """The second value of a number makes it an input; a third one finds that program."""
    x = torch.arange(5.0, device="hpu")

    def values(*numbers: float) -> list[str]:
        with _new_process():
            before = _names()
            for number in numbers:
                y = x.add(number)
                mark_step()
                assert y.tolist() == [i + number for i in range(5)]
            return [record.origin for record in _since(before)]

    assert values(1.5, 2.5, 3.5) == ["compiled", "compiled"]
    assert values(1.5, 7.5, 8.5) == ["store", "store"]


def test_operators_of_others_are_described():
    x = torch.randn(4, 8, device="hpu")
    weight = torch.ones(8, device="hpu")
    _, record = _run(lambda: torch.ops.hpu.rms_norm(x, weight, 1e-5)[0])
    assert dict(record.factors)["operators"].startswith("hpu::rms_norm#")
    _, record = _run(lambda: x * 2)
    assert dict(record.factors)["operators"] == "PyTorch's"


def test_a_program_for_other_tensors_is_compiled_anew(monkeypatch):
    """A key that names another recording's program costs a compilation, and no wrong result."""
    x, y = torch.ones(3, device="hpu"), torch.ones(5, device="hpu")
    _, record = _run(lambda: x + 41.0)
    wrong = bytes.fromhex(record.front_end_key)
    honest = recordings.recording_key
    with monkeypatch.context() as patch:
        patch.setattr(recordings, "recording_key", lambda *a: honest(*a).__class__(wrong, [], "x"))
        for function in (lambda: y * 7.0, lambda: (x + 1.0, x + 2.0)):
            results, found = _run(function)
            assert found.unusable == "the stored program takes other tensors"
            assert found.origin == "compiled"
            assert all(
                torch.equal(r, e.cpu()) for r, e in zip(results, _made(function), strict=True)
            )
    results, found = _run(lambda: x + 41.0)
    assert results[0].tolist() == [42.0] * 3


def _made(function: Callable[[], Tensor | tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    results = function()
    return results if isinstance(results, tuple) else (results,)


def test_a_recording_that_cannot_be_described_is_captured(monkeypatch):
    from habana_frameworks.torch.dynamo.fingerprints.function_text import Uncacheable
    from habana_frameworks.torch.eager import keys

    def refuse() -> list[tuple[str, str]]:
        raise Uncacheable("something was registered")

    monkeypatch.setattr(keys, "ambient_factors", refuse)
    x = torch.ones(7, device="hpu")
    for _ in range(2):
        results, record = _run(lambda: x - 3.0)
        assert results[0].tolist() == [-2.0] * 7
        assert record.capture_ms > 0 and record.front_end_key == ""
        assert record.reason == "captured in every process: something was registered"


def test_frozen_mode_explains_a_miss_and_compiles_nothing():
    x = torch.arange(3.0, device="hpu")
    _run(lambda: x * 11.0)
    with config.patch(frozen=True):
        results, record = _run(lambda: x * 11.0)
        assert (record.origin, results[0].tolist()) == ("store", [0.0, 11.0, 22.0])
        with _new_process():
            missed = x * 12.0
            with pytest.raises(FrozenMiss) as error:
                mark_step()
            assert re.search(
                r"\(HPU_FROZEN\) forbids .* differs in (numbers: '12\.0', there '|the recording)",
                str(error.value),
            )
            with pytest.raises(RuntimeError, match="has no value: .*HPU_FROZEN"):
                missed.cpu()
        graph = torch.hpu.HPUGraph()
        with pytest.raises(FrozenMiss, match="HPU_FROZEN"), torch.hpu.graph(graph):
            x * 13.0
        wrapped = torch.hpu.wrap_in_hpu_graph(torch.nn.Linear(3, 2).to("hpu"))
        with pytest.raises(FrozenMiss, match="HPU_FROZEN"), torch.no_grad():
            wrapped(x)
    assert (x + 1).tolist() == [1.0, 2.0, 3.0], "the device is usable"


def test_a_server_that_is_required_and_missing_is_an_error(monkeypatch):
    def connect():
        raise NoProgram("no compile server: this test says so", lasting=False)

    x = torch.arange(3.0, device="hpu")
    with monkeypatch.context() as patch, lazy_mode():
        patch.setattr(service, "connect", connect)
        assert (x * 14.0).tolist() == [0.0, 14.0, 28.0], "call by call"
        with config.patch(require_server=True):
            y = x.exp() * 15.0
            with pytest.raises(AskedForError, match="HPU_REQUIRE_SERVER .* this test says so"):
                y.cpu()
    assert (x * 16.0).tolist() == [0.0, 16.0, 32.0]


def test_programs_of_recordings_travel_in_pytorchs_artifacts():
    x = torch.arange(3.0, device="hpu")
    _, record = _run(lambda: x * 21.0)
    artifacts = torch.compiler.save_cache_artifacts()
    assert artifacts is not None
    _, info = artifacts
    assert record.front_end_key in info.artifacts["hpu_program"]
