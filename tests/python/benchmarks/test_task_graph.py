"""The simulation of the device's executor that benchmarks/scaling.py uses."""

from __future__ import annotations

import sys

import pytest
from paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import task_graph
from task_graph import KernelTasks, chunk_times, kernel_ns, scale


@pytest.fixture(autouse=True)
def free_barriers(monkeypatch):
    monkeypatch.setattr(task_graph, "BARRIER_NS", 0.0)
    monkeypatch.setattr(task_graph, "BARRIER_NS_PER_THREAD", 0.0)


def kernel(pieces: list[int], tasks: int | None = None, grain: int = 1) -> KernelTasks:
    return KernelTasks("k", "mme", tasks if tasks is not None else len(pieces), grain, pieces)


def test_even_tasks_scale_until_there_are_none_left():
    even = kernel([100] * 8)
    assert [kernel_ns(even, n) for n in (1, 2, 4, 8, 16)] == [800, 400, 200, 100, 100]


def test_a_long_task_is_not_split():
    assert kernel_ns(kernel([10, 10, 10, 900]), 4) == 900
    assert kernel_ns(kernel([900]), 64) == 900


def test_chunks_join_neighbours():
    """Half of a thread's share is in two chunks; a group of pieces is divided evenly."""
    assert chunk_times(kernel([1] * 64), 2) == [8.0, 8, 4, 4, 2, 2, 2, 2] * 2
    assert chunk_times(kernel([40, 80], tasks=8), 2) == [10.0] * 4 + [20.0] * 4


def test_a_thread_takes_from_others_when_its_own_is_done():
    # The first four of eight chunks belong to the first thread, which ends early and helps.
    assert kernel_ns(kernel([1] * 4 + [10] * 4), 2) == 24


def test_efficiency_counts_what_lies_between():
    scaled = scale([kernel([100] * 4)], 100, 4)
    assert scaled.ns == 200
    assert scaled.efficiency == pytest.approx(500 / 800)
    assert scaled.lost == [0.0]


def test_barriers_cost(monkeypatch):
    monkeypatch.setattr(task_graph, "BARRIER_NS", 30.0)
    monkeypatch.setattr(task_graph, "BARRIER_NS_PER_THREAD", 5.0)
    assert kernel_ns(kernel([100] * 4), 2) == 240
    assert kernel_ns(kernel([100] * 4), 1) == 400
