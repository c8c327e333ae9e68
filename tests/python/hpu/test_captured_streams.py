"""Streams in a capture: what waits for an event of a capture becomes part of it, as on CUDA."""

from __future__ import annotations

import copy

import pytest
import torch
from both_modes import close, matrix
from both_modes import mode as mode
from torch import nn


def test_a_warm_up_on_another_stream_whose_loss_is_still_held():
    # PyTorch's example of whole-network capture (its notes on CUDA semantics).
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    ours = copy.deepcopy(theirs).to("hpu")
    steps = {}
    for model in (theirs, ours):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y, model=model, optimizer=optimizer):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        steps[model] = step
    x, y = matrix(5, 8), matrix(5, 4)
    static_x, static_y = x.to("hpu"), y.to("hpu")
    side = torch.hpu.Stream()
    side.wait_stream(torch.hpu.current_stream())
    held = []
    with torch.hpu.stream(side):
        for _ in range(3):
            held.append(steps[ours](static_x, static_y))
            steps[theirs](x, y)
    torch.hpu.current_stream().wait_stream(side)
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        loss = steps[ours](static_x, static_y)
    close(loss, steps[theirs](x, y))
    for factor in (0.5, -1.0):
        static_x.copy_(x * factor)
        graph.replay()
        close(loss, steps[theirs](x * factor, y))
    for mine, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(mine, wanted)


def test_work_of_a_stream_that_forks_and_joins():
    x = matrix(3, 4).to("hpu")
    side = torch.hpu.Stream()
    with torch.hpu.stream(side):
        before = torch.ones(3, 4, device="hpu") * 2  # not yet run in lazy mode
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        doubled = x * 2
        side.wait_stream(torch.hpu.current_stream())
        with torch.hpu.stream(side):
            assert torch.hpu.is_current_stream_capturing()
            branch = doubled.relu() + before
        other = doubled.exp()
        torch.hpu.current_stream().wait_stream(side)
        result = branch + other
    with torch.hpu.stream(side):
        assert not torch.hpu.is_current_stream_capturing()
    for value in (1.5, -1.0):
        x.fill_(value)
        graph.replay()
        doubled_there = torch.full((3, 4), value * 2)
        close(result, doubled_there.relu() + 2 + doubled_there.exp())


def test_other_streams_run_as_always():
    x = matrix(3).to("hpu")
    side = torch.hpu.Stream()
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        result = x + 1
        with torch.hpu.stream(side):
            y = torch.full((2,), 3.0, device="hpu").mul_(2)
            event = side.record_event()
            side.synchronize()
            assert y.tolist() == [6.0, 6.0]
        torch.hpu.current_stream().wait_event(event)  # a point before the capture's work
    close(result, matrix(3) + 1)


EVENT_USES = {
    "queried": lambda event: event.query(),
    "waited for by the host": lambda event: event.synchronize(),
    "timed": lambda event: event.elapsed_time(event),
}


@pytest.mark.parametrize("use", EVENT_USES)
def test_the_host_cannot_use_an_event_of_a_capture(use):
    x = matrix(3).to("hpu")
    graph = torch.hpu.HPUGraph()
    event = torch.hpu.Event(enable_timing=True)
    with torch.hpu.graph(graph):
        result = x + 1
        event.record()
        with pytest.raises(RuntimeError, match=f"recorded in a capture cannot be {use}"):
            EVENT_USES[use](event)
    close(result, matrix(3) + 1)  # the capture went on
    with pytest.raises(RuntimeError, match=r"a capture that has ended; record the event again"):
        torch.hpu.current_stream().wait_event(event)
    event.record()
    event.synchronize()
    assert event.query()


def test_a_joined_stream_cannot_wait_for_the_host_nor_end_the_capture():
    x = matrix(3).to("hpu")
    torch.hpu.synchronize()
    side = torch.hpu.Stream()
    graph = torch.hpu.HPUGraph()
    graph.capture_begin()
    x.mul_(2)
    side.wait_stream(torch.hpu.current_stream())
    with torch.hpu.stream(side), pytest.raises(RuntimeError, match="has joined this capture"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="a wait for it .* cannot be part of it"):
        side.synchronize()
    with pytest.raises(RuntimeError, match="given up"):
        graph.capture_end()
    close(x, matrix(3))
    with torch.hpu.stream(side):
        close(x + 1, matrix(3) + 1)


def test_a_use_without_an_event_is_refused():
    x = matrix(3).to("hpu")
    graph = torch.hpu.HPUGraph()

    def capture():
        with torch.hpu.graph(graph):
            made = x * 2
            with torch.hpu.stream(torch.hpu.Stream()):
                made.relu()

    with pytest.raises(RuntimeError, match="on another stream, which waits for no event"):
        capture()


def test_two_captures_do_not_join():
    x = matrix(3).to("hpu")
    side = torch.hpu.Stream()
    outer, inner = torch.hpu.HPUGraph(), torch.hpu.HPUGraph()
    outer.capture_begin()
    event = torch.hpu.current_stream().record_event()
    with torch.hpu.stream(side):
        inner.capture_begin()
        with pytest.raises(RuntimeError, match="an event of another capture"):
            side.wait_event(event)
        with pytest.raises(RuntimeError, match="an event of another capture"):
            inner.capture_end()
    result = x + 1
    outer.capture_end()
    close(result, matrix(3) + 1)
