"""Frozen mode, priorities, and the explanation of a miss."""

from __future__ import annotations

import re

import pytest
import torch
from helpers import fresh_process
from stored_programs import run

from habana_frameworks.torch.dynamo import explain, report
from habana_frameworks.torch.dynamo.programs.service import service


def test_frozen_mode_explains_a_miss_and_compiles_nothing(stored):
    assert run(3, frozen=True).origin == "store"
    with pytest.raises(Exception, match="FrozenMiss") as error:
        run(9, frozen=True)
    text = str(error.value)
    assert "option frozen (HPU_FROZEN) forbids compiling one: front-end key " in text
    assert re.search(r"differs in input 0: 'float32\[9, 5\][^']*', there 'float32\[\d, 5\]", text)
    assert "hpu-compile import" in text
    counters = service.connect().stats()
    assert counters["compile.frozen_misses"] == 1
    assert counters["compile.compiled"] == 3
    # A graph without a device is not a miss and still runs eagerly.
    fresh_process()
    compiled = torch.compile(
        lambda x: x + 1, backend="hpu_backend", dynamic=False, options={"frozen": True}
    )
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]


def test_a_miss_is_explained_by_what_is_stored(stored):
    """In a process that has seen no graph before."""
    fresh_process()
    run(11)
    explanation = explain(report().graphs[-1])
    assert explanation.nearest_key in service.stored_keys()
    assert {d.factor for d in explanation.differences} == {"input 0", "all inputs"}


def test_warm_up_goes_to_the_server(stored, monkeypatch):
    seen = []
    connect = service.connect

    class Listening:
        def __init__(self, client):
            self._client = client

        def __getattr__(self, name):
            return getattr(self._client, name)

        def compile(self, *arguments):
            seen.append(arguments[-2:])
            return self._client.compile(*arguments)

    monkeypatch.setattr(service, "connect", lambda: Listening(connect()))
    run(20)
    assert run(21, compile_priority="warm-up").origin == "compiled"
    assert seen == [(False, False), (True, False)]
