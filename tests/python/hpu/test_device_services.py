"""The services of the hpu device beside tensors: random numbers, streams, pinned memory,
statistics."""

from __future__ import annotations

import pytest
import torch

import habana_frameworks.torch  # noqa: F401  registers the device

# ---- random numbers ----


def test_generator_is_deterministic():
    def draw() -> list[torch.Tensor]:
        return [
            torch.randn(5, device="hpu"),
            torch.rand(5, device="hpu"),
            torch.empty(5, device="hpu").uniform_(-1, 1),
            torch.randint(0, 100, (5,), device="hpu"),
            torch.randperm(8, device="hpu"),
            torch.nn.functional.dropout(torch.ones(64, device="hpu")),
            torch.bernoulli(torch.full((5,), 0.5, device="hpu")),
            torch.multinomial(torch.ones(8, device="hpu"), 3),
        ]

    torch.hpu.manual_seed(7)
    first = draw()
    torch.hpu.manual_seed(7)
    second = draw()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(draw()[0], first[0])
    torch.manual_seed(7)
    assert torch.equal(draw()[0], first[0])


def test_generator_state_and_own_generators():
    state = torch.hpu.get_rng_state()
    a = torch.randn(3, device="hpu")
    torch.hpu.set_rng_state(state)
    assert torch.equal(torch.randn(3, device="hpu"), a)
    one = torch.Generator(device="hpu").manual_seed(11)
    two = torch.Generator(device="hpu").manual_seed(11)
    assert one.device.type == "hpu" and one.initial_seed() == 11
    x = torch.randn(3, device="hpu", generator=one)
    assert torch.equal(x, torch.randn(3, device="hpu", generator=two))
    with pytest.raises(RuntimeError, match="Expected a 'hpu' device type for generator"):
        torch.randn(3, device="hpu", generator=torch.Generator())


def test_device_draws_leave_the_cpu_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    torch.nn.functional.dropout(torch.ones(64, device="hpu"))
    torch.randn(5, device="hpu")
    assert torch.equal(torch.rand(2), expected)


# ---- streams, events, pinned memory ----


def test_streams_order_work():
    main = torch.hpu.current_stream()
    side = torch.hpu.Stream()
    assert side != main
    a = torch.ones(1 << 20, device="hpu")
    with torch.hpu.stream(side):
        side.wait_stream(main)
        b = a * 2
        done = torch.hpu.Event(enable_timing=False)
        done.record(side)
    main.wait_event(done)
    assert (b + a).sum().item() == 3 * (1 << 20)
    a.record_stream(side)
    side.synchronize()
    assert side.query() and done.query()


def test_event_timing():
    start, end = torch.hpu.Event(enable_timing=True), torch.hpu.Event(enable_timing=True)
    start.record()
    torch.ones(1 << 18, device="hpu").fill_(3)
    end.record()
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < 60_000
    with pytest.raises(RuntimeError, match="enable_timing"):
        torch.hpu.Event().elapsed_time(end)


def test_pinned_memory():
    host = torch.randn(1000, pin_memory=True)
    assert host.is_pinned() and not torch.randn(3).is_pinned()
    assert torch.ones(3).pin_memory().is_pinned()
    device = host.to("hpu", non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(device, non_blocking=True)
    torch.hpu.synchronize()
    assert torch.equal(back, host)


def test_generic_torch_stream_and_event():
    stream = torch.Stream(device="hpu")
    event = torch.Event(device="hpu")
    with stream:
        x = torch.full((4,), 2.0, device="hpu")
        event.record(stream)
    event.synchronize()
    assert event.query() and x.sum().item() == 8


# ---- memory ----


def test_memory_statistics():
    torch.hpu.empty_cache()
    torch.hpu.reset_accumulated_memory_stats()
    before = torch.hpu.memory_stats()
    x = torch.empty(1000, device="hpu")  # 4000 bytes in a block of 4096
    y = torch.empty(3 << 20, dtype=torch.uint8, device="hpu")
    stats = torch.hpu.memory_stats()
    assert set(stats) >= {
        "Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize",
        "TotalSystemAllocs", "TotalSystemFrees", "TotalActiveAllocs",
    }  # fmt: skip
    assert stats["InUse"] - before["InUse"] == 4096 + (3 << 20)
    assert stats["NumAllocs"] == 2 and stats["NumFrees"] == 0
    assert stats["ActiveAllocs"] - before["ActiveAllocs"] == 2
    assert torch.hpu.memory_allocated() == stats["InUse"]
    torch.hpu.reset_peak_memory_stats()
    del x, y
    stats = torch.hpu.memory_stats()
    assert stats["InUse"] == before["InUse"] and stats["NumFrees"] == 2
    assert torch.hpu.max_memory_allocated() - stats["InUse"] == 4096 + (3 << 20)
    free, total = torch.hpu.mem_get_info()
    assert 0 < free <= total == stats["Limit"]


def test_freed_memory_is_reused():
    x = torch.empty(5 << 20, dtype=torch.uint8, device="hpu")
    address = x.data_ptr()
    del x
    assert torch.empty(5 << 20, dtype=torch.uint8, device="hpu").data_ptr() == address


def test_out_of_memory_names_request_free_and_total():
    total = torch.hpu.mem_get_info()[1]
    with pytest.raises(torch.OutOfMemoryError) as error:
        torch.empty(total + 1, dtype=torch.uint8, device="hpu")
    text = str(error.value)
    assert f"({total + 1} bytes)" in text
    assert "free" in text and "total" in text and "in use" in text
    assert torch.ones(2, device="hpu").sum().item() == 2  # still usable
