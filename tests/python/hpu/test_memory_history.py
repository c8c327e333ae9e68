"""Snapshots of device memory and its history, in the form of PyTorch's memory viewer."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

from habana_frameworks.torch.hpu import memory

_SIZE = 3_000_001 * 4  # a size that nothing else here has


@pytest.fixture(autouse=True)
def _history() -> Iterator[None]:
    memory.empty_cache()
    memory._record_memory_history()
    yield
    memory._record_memory_history(enabled=None)


def _allocate() -> torch.Tensor:
    return torch.empty(_SIZE // 4, device="hpu")


def _events(*actions: str) -> list[dict[str, Any]]:
    trace = memory._snapshot()["device_traces"][0]
    return [e for e in trace if e["action"] in actions]


def test_events_name_what_happened_and_who_called() -> None:
    tensor = _allocate()
    address = tensor.data_ptr()
    del tensor
    events = [e for e in _events("alloc", "free_requested", "free_completed") if e["size"] == _SIZE]
    assert [(e["action"], e["addr"]) for e in events] == [
        ("alloc", address),
        ("free_requested", address),
        ("free_completed", address),
    ]
    first = events[0]["frames"][0]
    assert (first["filename"], first["name"]) == (__file__, "_allocate")
    times = [e["time_us"] for e in events]
    assert times == sorted(times)
    assert all(e["stream"] == 0 for e in events)


def test_blocks_add_up_to_their_segments_and_to_the_statistics() -> None:
    tensor = _allocate()
    segments = memory.memory_snapshot()
    blocks = [b for s in segments for b in s["blocks"]]
    held = [b for b in blocks if b["address"] == tensor.data_ptr()]
    assert [(b["state"], b["requested_size"]) for b in held] == [("active_allocated", _SIZE)]
    assert held[0]["frames"][0]["name"] == "_allocate"
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
    assert sum(s["total_size"] for s in segments) == memory.memory_reserved()
    assert sum(s["allocated_size"] for s in segments) == memory.memory_allocated()


def test_segments_that_go_back_are_events() -> None:
    del_me = _allocate()
    taken = [e for e in _events("segment_alloc") if e["size"] >= _SIZE]
    del del_me
    memory.empty_cache()
    given = [(e["addr"], e["size"]) for e in _events("segment_free")]
    assert [(e["addr"], e["size"]) for e in taken] == given[: len(taken)]


def test_a_block_that_another_stream_reads_awaits_its_end() -> None:
    stream = torch.hpu.Stream()
    tensor = _allocate()
    address = tensor.data_ptr()
    with torch.hpu.stream(stream):
        for _ in range(50):
            tensor.sin_()
    tensor.record_stream(stream)
    del tensor
    requested = [e for e in _events("free_requested") if e["addr"] == address]
    assert len(requested) == 1
    stream.synchronize()
    _allocate()  # the allocator notices at the next request
    assert [e["addr"] for e in _events("free_completed")].count(address) >= 1


def test_running_out_of_memory_is_an_event() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device="hpu")
    (event,) = _events("oom")
    assert event["size"] == 1 << 50
    assert 0 < event["device_free"] < 1 << 50


def test_the_viewer_reads_a_snapshot(tmp_path: Path) -> None:
    kept = _allocate()
    file = tmp_path / "snapshot.pickle"
    memory._dump_snapshot(str(file))
    data = pickle.loads(file.read_bytes())
    assert f"{_SIZE / 2**20:.1f}MiB" in _memory_viz.trace(data)
    assert "total_reserved" in _memory_viz.segsum(data)
    assert "<html>" in _memory_viz.trace_plot(data).lower()
    del kept


def test_the_oldest_events_are_forgotten_and_the_end_forgets_all() -> None:
    memory._record_memory_history(max_entries=3)
    for _ in range(5):
        _allocate()
    assert len(_events("alloc", "free_requested", "free_completed", "segment_alloc")) == 3
    memory._record_memory_history(enabled="state")
    kept = _allocate()
    snapshot = memory._snapshot()
    assert snapshot["device_traces"] == [[]]
    (block,) = [
        b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == kept.data_ptr()
    ]
    assert block["frames"][0]["name"] == "_allocate"
    memory._record_memory_history(context=None)
    _allocate()
    assert all(e["frames"] == [] for e in _events("alloc"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"enabled": "yes"}, "enabled='yes'; expected one of"),
        ({"context": "some"}, "context='some'; expected one of"),
        ({"stacks": "java"}, "stacks='java'; expected one of"),
        ({"max_entries": -1}, "max_entries=-1 is negative"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        memory._record_memory_history(**arguments)
