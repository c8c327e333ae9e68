"""torch.hpu.Stream and torch.hpu.Event, eagerly and in graphs."""

from __future__ import annotations

import pytest
import torch
from helpers import fresh_process

from habana_frameworks.torch.dynamo import report

X = torch.ones(3, device="hpu")


def hpu_compile(function):
    fresh_process()
    return torch.compile(function, backend="hpu_backend", fullgraph=True)


def busy(stream: torch.Stream, x: torch.Tensor, times: int = 40) -> None:
    """Queues work that adds `times` to x."""
    stream.wait_stream(torch.hpu.current_stream())
    with torch.hpu.stream(stream):
        for _ in range(times):
            x.add_(1)


def test_they_are_pytorchs():
    stream, event = torch.hpu.Stream(), torch.hpu.Event()
    assert isinstance(stream, torch.Stream) and isinstance(event, torch.Event)
    assert isinstance(torch.hpu.current_stream(), torch.hpu.Stream)
    assert stream.device == torch.device("hpu", 0) and event.device.type == "hpu"
    assert stream.device_index == 0 and stream.id() == stream.stream_id
    same = torch.hpu.Stream(stream_id=stream.stream_id)
    assert same == stream and hash(same) == hash(stream)
    assert stream not in (torch.hpu.Stream(), torch.hpu.default_stream(), 1)
    assert torch.hpu.Stream("hpu:0", 1).device_index == 0
    assert torch.hpu.get_stream_info(stream)[:2] == (stream.stream_id, 0)
    assert str(stream.stream_id) in repr(stream)
    with pytest.raises(ValueError, match="this host has"):
        torch.hpu.Stream(5000)


@pytest.mark.parametrize("enter", [torch.hpu.stream, lambda stream: stream])
def test_the_current_stream(enter):
    first, second = torch.hpu.Stream(), torch.hpu.Stream()
    before = torch.hpu.current_stream()
    with enter(first) as entered:
        assert entered == first == torch.hpu.current_stream()
        with enter(second), torch.hpu.stream(None):
            assert torch.accelerator.current_stream() == second
        assert torch.hpu.current_stream() == first
    assert torch.hpu.current_stream() == before


@pytest.mark.parametrize("other", [torch.hpu.Stream, lambda: torch.Stream(device="hpu")])
def test_streams_wait(other):
    main, side = torch.hpu.current_stream(), other()
    x = torch.zeros(1 << 20, device="hpu")
    busy(side, x)
    main.wait_stream(side)
    assert (x + 0).eq(40).all()
    busy(side, x)
    main.wait_event(torch.hpu.Stream.record_event(torch.hpu.Stream(stream_id=side.stream_id)))
    assert (x + 0).eq(80).all()
    busy(side, x)
    event = torch.hpu.Event()
    event.record(side)
    event.wait(main)
    x.record_stream(side)
    torch.hpu.record_stream(x, side)
    assert (x + 0).eq(120).all()
    side.synchronize()
    assert side.query() and event.query()


def test_record_event_takes_and_makes_events():
    stream = torch.hpu.Stream()
    for event in (torch.hpu.Event(), torch.Event("hpu")):
        assert stream.record_event(event) is event and event.event_id
        event.synchronize()
    assert isinstance(stream.record_event(), torch.hpu.Event)


@pytest.mark.parametrize("kind", [torch.hpu.Event, lambda **kw: torch.Event("hpu", **kw)])
def test_elapsed_time(kind):
    start, end = torch.hpu.Event(enable_timing=True), kind(enable_timing=True)
    start.record()
    busy(torch.hpu.current_stream(), torch.zeros(1 << 18, device="hpu"))
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000
    if isinstance(end, torch.hpu.Event):
        assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_elapsed_time_of_other_events_is_refused():
    timed, plain = torch.hpu.Event(enable_timing=True), torch.hpu.Event()
    with pytest.raises(RuntimeError, match="both recorded"):
        timed.elapsed_time(torch.hpu.Event(enable_timing=True))
    for event in (timed, plain):
        event.record()
        event.synchronize()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        timed.elapsed_time(plain)


def with_new_objects(x):
    side = torch.hpu.Stream()
    side.wait_stream(torch.hpu.current_stream())
    with torch.hpu.stream(side):
        y = x + 1
    event = side.record_event()
    torch.hpu.current_stream().wait_event(event)
    done = torch.hpu.Event()
    done.record()
    done.synchronize()
    return y * 2


SIDE, EVENT = torch.hpu.Stream(), torch.hpu.Event()


def with_global_objects(x):
    with SIDE:
        y = x + 1
    EVENT.record(SIDE)
    EVENT.wait()
    torch.hpu.current_stream().wait_stream(SIDE)
    SIDE.synchronize()
    torch.hpu.synchronize()
    return y * 2


@pytest.mark.parametrize("function", [with_new_objects, with_global_objects])
def test_no_graph_break(function):
    compiled = hpu_compile(function)
    for _ in range(3):
        assert compiled(X).tolist() == [4, 4, 4]
    (graph,) = report().graphs
    assert graph.recipes == 1 and graph.eager_nodes == 0


def test_a_graph_records_events():
    start, end = (torch.hpu.Event(enable_timing=True) for _ in range(2))

    def run(x):
        start.record()
        y = x @ x
        end.record()
        new = torch.hpu.Event()
        new.record()
        return y, new

    compiled = hpu_compile(run)
    x = torch.ones(512, 512, device="hpu")
    for _ in range(2):
        _, new = compiled(x)
        assert isinstance(new, torch.Event) and new.event_id
        end.synchronize()
        new.synchronize()
        assert start.query() and start.elapsed_time(end) > 0


def test_a_graph_waits_for_other_streams():
    side, event = torch.hpu.Stream(), torch.hpu.Event()

    def for_a_stream(x):
        torch.hpu.current_stream().wait_stream(side)
        return x * 2

    def for_an_event(x):
        torch.hpu.current_stream().wait_event(event)
        return x * 2

    def on_a_stream(x):
        with torch.hpu.stream(side):
            return x * 2

    for function in (for_a_stream, for_an_event, on_a_stream):
        compiled = hpu_compile(function)
        for _ in range(3):
            x = torch.zeros(1 << 20, device="hpu")
            busy(side, x)
            event.record(side)
            assert compiled(x).eq(80).all()


def test_other_streams_wait_for_a_graph():
    side = torch.hpu.Stream()

    def run(x):
        with torch.hpu.stream(side):
            for _ in range(8):
                x = x @ x
        return x

    compiled = hpu_compile(run)
    x = torch.eye(512, device="hpu")
    for _ in range(3):
        y = compiled(x)
        with torch.hpu.stream(side):
            copied = y + 0
        side.synchronize()
        assert torch.equal(copied.cpu(), torch.eye(512))


def test_gradients_of_a_graph_with_streams():
    compiled = hpu_compile(with_global_objects)
    x = X.clone().requires_grad_()
    compiled(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_graph_that_hands_memory_to_a_stream_runs_eagerly():
    side = torch.hpu.Stream()

    def run(x):
        y = x + 1
        y.record_stream(side)
        return y

    assert hpu_compile(run)(X).tolist() == [2, 2, 2]
    (graph,) = report().graphs
    assert "which stream uses it" in graph.reason
