"""Graphs that AOTAutograd partitions, in calls with other sizes."""

from __future__ import annotations

import pytest
import torch
from eventually import wait_until
from partitioned_case import Tripled
from torch import nn
from torch.utils.checkpoint import checkpoint
from training_case import assert_close, compiled, leaf, matrix

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.capture.wire import CaptureError
from habana_frameworks.torch.dynamo.programs import lookup
from habana_frameworks.torch.dynamo.programs.service import service


def test_sizes_that_change():
    def function(w, x):
        return Tripled.apply(w * x.shape[0] + x.sum(0)).sum()

    run = compiled(function)
    for rows in (3, 5, 7):
        w, cpu = leaf(4), matrix(4).requires_grad_()
        x = matrix(rows, 4)
        run(w, x.to("hpu")).backward()
        function(cpu, x).backward()
        assert_close(w.grad, cpu.grad, rtol=1e-4, atol=1e-4)
    assert all(graph.origin != "eager" for graph in report().graphs)


@pytest.mark.parametrize("refused", ["a draw", "complex numbers"])
def test_a_forward_that_is_refused_when_sizes_change(refused):
    """A part with symbols was captured at its first call, when it was too late to run the whole
    graph eagerly."""
    drop = nn.Dropout(0.5)

    def squared(x):
        if refused == "a draw":
            return drop(x * x)
        pairs = torch.view_as_complex(x.reshape(x.shape[0], -1, 2))
        return torch.view_as_real(pairs * pairs).flatten(1)

    run = compiled(lambda x: checkpoint(squared, x * 1, use_reentrant=False))
    for rows in (8, 6, 5):
        w, cpu = leaf(rows, 8), matrix(rows, 8).requires_grad_()
        y = run(w)
        y.sum().backward()
        if refused == "a draw":
            assert_close(w.grad * w, 2 * y.cpu())
        else:
            squared(cpu).sum().backward()
            assert_close(w.grad, cpu.grad)


def test_a_later_size_that_is_refused_runs_eagerly(monkeypatch):
    def function(x):
        return Tripled.apply(x).sum()

    run = compiled(function, compile_ahead=0)
    for rows in (3, 5):
        run(leaf(rows, 4)).backward()

    def refuse(*_):
        raise CaptureError("not this size")

    monkeypatch.setattr(lookup, "capture", refuse)
    w = leaf(7, 4, seed=1)
    service.forget_programs()
    monkeypatch.setattr(lookup.service, "fetch", lambda *_: None)
    run(w).backward()
    assert_close(w.grad, 3 * matrix(7, 4, seed=1))
    assert [g.reason for g in report().graphs[-2:]] == ["not this size"] * 2


def test_sizes_of_parts_are_foretold():
    """AOTAutograd notes example values under another name than Dynamo does."""

    def function(x):
        return Tripled.apply(x).sum()

    run = compiled(function)
    for rows in (4, 8, 12):
        run(leaf(rows, 3)).backward()
    wait_until(lambda: any(g.ahead for g in report().graphs))
    assert any(g.ahead and g.parted_because for g in report().graphs)
