"""Storages in the programs of lazy mode: their kind and size choose the program, and what is
written to them keeps their strides."""

from __future__ import annotations

import pytest
import torch
from lazy_case import Counts, lazy_mode

from habana_frameworks.torch.core import mark_step
from habana_frameworks.torch.lazy.views import with_memory_of


@pytest.fixture(autouse=True)
def _lazy():
    with lazy_mode():
        yield


def test_a_write_to_memory_is_not_taken_for_one_to_a_temporary():
    one = torch.ones(4, device="hpu")

    def step(target: torch.Tensor) -> torch.Tensor:
        target.copy_(one)
        return target + 1

    given = torch.zeros(4, device="hpu")
    mark_step()
    for _ in range(2):
        first = step(torch.empty(4, device="hpu"))  # nobody holds it any more
        mark_step()
        second = step(given)
        mark_step()
        assert (given.tolist(), first.tolist(), second.tolist()) == ([1] * 4, [2] * 4, [2] * 4)
        given.zero_()
        mark_step()


def test_the_size_of_a_storage_is_part_of_its_program():
    """Parts that overlap stand for all of a storage. Nothing else in the calls tells its size."""
    rows = (100, 4)
    wholes = [torch.arange(4.0 * count).reshape(count, 4) for count in rows]
    given = [whole.to("hpu") for whole in wholes]
    mark_step()
    counts = Counts()
    for whole, on_hpu in zip(wholes, given, strict=True):
        read = on_hpu[:4, 0:2] + on_hpu[:4, 1:3]
        made = torch.empty_like(on_hpu)
        made[:4, 0:2] = 1
        made[:4, 1:3] = 2
        mark_step()
        assert torch.equal(read.cpu(), whole[:4, 0:2] + whole[:4, 1:3])
        assert made[:4, :3].tolist() == [[1, 2, 2]] * 4
    assert counts.compilations >= len(rows)


def test_parts_of_an_empty_buffer_are_written_and_no_more():
    """DeepSpeed cuts a buffer of 2 GB for each step and fills as much as there are gradients."""
    one = torch.ones(50, 2, device="hpu")
    mark_step()
    torch.hpu.synchronize()
    before = torch.hpu.memory_allocated()
    torch.hpu.reset_peak_memory_stats()
    counts = Counts()
    for step in range(3):
        buffer = torch.empty(1 << 22, device="hpu")
        buffer[100:200].view(50, 2).copy_(one)
        buffer[200:300].view(50, 2).copy_(one * 2)
        buffer[150:250].mul_(10 + step)
        mark_step()
        wanted = torch.tensor([1.0, 10 + step, 2 * (10 + step), 2])
        assert torch.equal(buffer[100:300].cpu(), wanted.repeat_interleave(50))
        assert torch.hpu.max_memory_allocated() - before < 1.5 * buffer.nbytes
        del buffer
    assert counts.runs_by_call == 0


@pytest.mark.parametrize("memory", ["given", "empty"])
def test_a_write_through_a_transposed_view_keeps_the_strides(memory):
    """The view after it is one that only as_strided makes."""
    counts = Counts()

    def step(device: str) -> list[torch.Tensor]:
        x = torch.arange(16.0).reshape(4, 4).to(device)
        target = torch.ones(4, 4).to(device)
        mark_step()
        if memory == "empty":
            target = torch.empty(4, 4, device=device)
        torch.clamp(x, -3, 5, out=target.t())
        seen = target.as_strided((2, 2), (3, 2), 1) + 1
        target.add_(1)
        mark_step()
        return [seen.cpu(), target.cpu()]

    for got, wanted in zip(step("hpu"), step("cpu"), strict=True):
        assert torch.equal(got, wanted)
    assert counts.runs_by_call == 0


def test_a_value_that_lies_as_it_should_is_not_copied():
    value = torch.arange(8.0).reshape(1, 2, 4)
    assert with_memory_of(value, value.shape, (1, 4, 1)) is value
    turned = with_memory_of(value, value.shape, (8, 1, 2))
    assert turned.stride()[1:] == (1, 2)
    assert torch.equal(turned, value)
