"""A launch that fails is told at the next synchronization with the operator that queued it, and
with its line if PT_HPU_SOURCE_LINES asks for it. The device goes on."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from eager_case import place_on_cpu
from lazy_case import lazy_mode

from habana_frameworks.torch import native

_torch = native.torch_module()
_HINT = "(PT_HPU_SOURCE_LINES=1 adds the lines that called)"


@pytest.fixture(autouse=True)
def only_recipes(monkeypatch) -> Iterator[None]:
    monkeypatch.delenv("PT_HPU_SOURCE_LINES", raising=False)
    with place_on_cpu("none"):
        yield
    _torch.reload_log_settings()


@contextmanager
def failing(point: str) -> Iterator[None]:
    """The device fails at one point in the block: "execution:2=32" is the second launch."""
    library = ctypes.CDLL(_torch.library_path())
    assert library.synConfigurationSet(b"HPU_EMULATOR_FAULTS", point.encode()) == 0
    try:
        yield
    finally:
        assert library.synConfigurationSet(b"HPU_EMULATOR_FAULTS", b"") == 0


def here() -> str:
    """The line of the caller, as messages have it."""
    frame = sys._getframe(1)
    return f"{__file__}:{frame.f_lineno}"


def message_of(run: Callable[[], object], point: str = "execution:1=32") -> str:
    def wait() -> None:
        run()
        torch.hpu.synchronize()

    with failing(point), pytest.raises(_torch.DeviceError) as raised:
        wait()
    return str(raised.value)


def lines_wanted(monkeypatch) -> None:
    monkeypatch.setenv("PT_HPU_SOURCE_LINES", "1")
    _torch.reload_log_settings()


def check_device() -> None:
    x = torch.arange(6.0, device="hpu")
    torch.hpu.synchronize()
    assert (x * 2 + 1).cpu().tolist() == [1, 3, 5, 7, 9, 11]


def test_an_eager_call_is_named() -> None:
    x = torch.ones(3, 5, device="hpu")

    def run() -> None:
        torch.exp(x)
        torch.sin(x)

    run()
    torch.hpu.synchronize()
    for number, name in ((1, "exp"), (2, "sin")):
        told = message_of(run, f"execution:{number}=32")
        assert "synDeviceSynchronize: status 32" in told
        assert told.endswith(
            f"; it was queued by {name}; launches since the last synchronization: 2 {_HINT}"
        )
        check_device()
    assert run() is None


def test_an_eager_call_is_named_with_its_line(monkeypatch) -> None:
    x = torch.ones(3, 7, device="hpu")
    lines_wanted(monkeypatch)

    def run() -> None:
        nonlocal line
        torch.exp(x)
        torch.nn.functional.softsign(x), (line := here())

    line = ""
    run()
    torch.hpu.synchronize()
    told = message_of(run, "execution:2=32")
    assert re.search(rf"queued by \w+ at {re.escape(line)};", told), told
    assert _HINT not in told
    check_device()


def test_calls_of_one_program_are_told_apart(monkeypatch) -> None:
    x = torch.ones(4, 7, device="hpu")
    lines_wanted(monkeypatch)
    lines = []

    def run() -> None:
        lines.clear()
        torch.exp(x), lines.append(here())
        torch.exp(x), lines.append(here())

    for number in (1, 2):
        told = message_of(run, f"execution:{number}=32")
        assert f"queued by exp at {lines[number - 1]};" in told
    check_device()


@pytest.mark.parametrize("wait", ["cpu", "stream", "event"])
def test_every_way_to_wait_tells_it(wait: str) -> None:
    x = torch.ones(3, 9, device="hpu")
    torch.cos(x).cpu()

    def run() -> None:
        made = torch.cos(x)
        if wait == "cpu":
            made.cpu()
        elif wait == "stream":
            torch.hpu.current_stream().synchronize()
        else:
            event = torch.hpu.Event()
            event.record()
            event.synchronize()

    assert "; it was queued by cos; " in message_of(run)
    check_device()


def test_what_has_ended_is_not_suspected() -> None:
    x = torch.ones(3, 11, device="hpu")
    torch.cos(x).cpu()
    torch.exp(x)
    torch.hpu.synchronize()
    told = message_of(lambda: torch.cos(x))
    assert "it was queued by cos; launches since the last synchronization: 1" in told
    check_device()


def test_a_recording_is_named_with_its_calls(monkeypatch) -> None:
    x = torch.ones(3, 13, device="hpu")

    def run() -> torch.Tensor:
        nonlocal lines
        y = torch.exp(x)
        y, lines = y.sin(), here()
        return y

    lines = ""
    with lazy_mode():
        run().cpu()
        held = []
        told = message_of(lambda: held.append(run()))
        assert re.search(r"queued by recording_\d+ \(exp, sin\); .*: 1 ", told), told
        check_device()
        lines_wanted(monkeypatch)
        told = message_of(lambda: held.append(run()))
        assert re.search(
            rf"queued by recording_\d+ \(exp at .*, sin at {re.escape(lines)}\);", told
        )
        check_device()
        torch.testing.assert_close(run().cpu(), torch.full((3, 13), 1.0).exp().sin())


def test_a_long_recording_names_some_calls() -> None:
    x = torch.ones(3, 17, device="hpu")

    def run() -> torch.Tensor:
        y = x
        for _ in range(12):
            y = y.sin()
        return y

    with lazy_mode():
        run().cpu()
        held = []
        told = message_of(lambda: held.append(run()))
        assert "(" + "sin, " * 7 + "sin and 4 more);" in told


def test_a_replay_is_named_with_its_calls(monkeypatch) -> None:
    x = torch.ones(3, 15, device="hpu")
    lines_wanted(monkeypatch)
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        y, line = torch.exp(x), here()
    graph.replay()
    torch.hpu.synchronize()
    told = message_of(graph.replay)
    assert re.search(rf"queued by recording_\d+ \(exp at {re.escape(line)}\);", told), told
    check_device()
    y.zero_()
    graph.replay()
    torch.testing.assert_close(y.cpu(), torch.ones(3, 15).exp())


def test_a_compiled_program_is_named_with_its_line(monkeypatch) -> None:
    x = torch.ones(3, 19, device="hpu")

    def function(v: torch.Tensor) -> torch.Tensor:
        return v.exp() + 1

    compiled = torch.compile(function, backend="hpu_backend")
    compiled(x).cpu()
    told = message_of(lambda: compiled(x))
    assert re.search(r"queued by program graph_\d+; ", told), told
    lines_wanted(monkeypatch)
    told = message_of(lambda: compiled(x))
    line = f"{__file__}:{function.__code__.co_firstlineno}"
    assert re.search(rf"queued by program graph_\d+ at {re.escape(line)};", told), told
    check_device()


def test_a_launch_that_cannot_be_queued_is_named() -> None:
    x = torch.ones(3, 21, device="hpu")
    torch.cos(x).cpu()
    told = message_of(lambda: torch.cos(x), "launch:1=26")
    assert told.startswith("INTERNAL: cos: program ")
    check_device()
