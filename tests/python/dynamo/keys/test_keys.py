"""Both keys and damaged programs, end to end: user code in processes of its own, a real daemon."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from failing_process import hpu_compile, log_of, run
from paths import ROOT

# The call of another graph under a given front-end key.
ATTACK = """
import dataclasses
from habana_frameworks.torch.dynamo.programs import lookup
honest = lookup.front_end_key
def of_another_graph(*arguments):
    key = honest(*arguments)
    return dataclasses.replace(key, key=bytes.fromhex({key!r}))
lookup.front_end_key = of_another_graph
def function(x, w):
    return torch.softmax(torch.relu(x @ w) + 7, -1) * 2
"""


def programs(cache: Path) -> list[dict[str, Any]]:
    """Rows of `hpu-compile ls`."""
    rows: Any = hpu_compile(cache, "ls")
    return list(rows)


def test_another_graphs_front_end_key_is_its_writers_own_loss(private_cache: Path) -> None:
    """B files its program under A's front-end key; A's program stays A's."""
    assert run(private_cache)["origin"] == "compiled"
    (program,) = programs(private_cache)
    (key,) = program["front_end_keys"]
    # A wrong alias is written by a compilation, which the hook starts on a miss only.
    write = ATTACK.format(key=key) + "lookup.service.fetch = lambda *_: None\n"
    assert run(private_cache, write)["origin"] == "compiled"
    stored = {row["key"]: row for row in programs(private_cache)}
    assert len(stored) == 2
    assert stored[program["key"]]["front_end_keys"] == []
    assert hpu_compile(private_cache, "stats")["alias.replaced"] == 1
    assert "alias replaced front_end_key=" + key in log_of(hpu_compile(private_cache, "status"))
    # A process of A that compiles gets A (PROGRAM compares with eager) and replaces the wrong
    # alias.
    captured = (
        "from habana_frameworks.torch.dynamo.programs import lookup\n"
        "lookup.service.fetch = lambda *_: None\n"
    )
    assert run(private_cache, captured)["origin"] == "store"
    assert run(private_cache)["origin"] == "store"


def test_changed_capture_code_costs_a_capture(private_cache: Path) -> None:
    before = """
from habana_frameworks.torch.dynamo.keys import graph_key
graph_key.capture_digest = lambda: "of another version"
"""
    captured = "assert graph.capture_ms > 0"
    fetched = "assert graph.capture_ms == 0"
    assert run(private_cache, after=captured)["origin"] == "compiled"
    assert run(private_cache, before, captured)["origin"] == "store"
    assert run(private_cache, before, fetched)["origin"] == "store"
    assert run(private_cache, after=fetched)["origin"] == "store", "both aliases live"
    (program,) = programs(private_cache)
    assert len(program["front_end_keys"]) == 2
    assert hpu_compile(private_cache, "stats")["compile.compiled"] == 1


def test_a_program_that_cannot_be_loaded_is_compiled_anew(private_cache: Path) -> None:
    run(private_cache)
    before = """
from habana_frameworks.torch import native
module = native.torch_module()
load, failures = module.Program, [RuntimeError("no such kernel")]
class Device:
    def __getattr__(self, name):
        return getattr(module, name)
    def Program(self, *arguments):
        if failures:
            raise failures.pop()
        return load(*arguments)
device = Device()
native.torch_module = lambda: device
"""
    after = 'assert graph.unusable == "it cannot be loaded: no such kernel", graph.unusable'
    assert run(private_cache, before, after)["origin"] == "compiled"
    stats = hpu_compile(private_cache, "stats")
    assert (stats["compile.recompiles"], stats["rocksdb.quarantined"]) == (1, 1)
    assert stats["compile.compiled"] == 2
    assert run(private_cache)["origin"] == "store"


def test_a_program_that_stays_unusable_ends_in_eager(private_cache: Path) -> None:
    """Programs of the tests' compiler can be decoded, but their recipes are not valid."""
    binary = ROOT / "build/release/tests/service/hpu_fake_compile_server"
    if not binary.exists():
        pytest.skip(f"{binary} is not built")
    answer = run(private_cache, HPU_COMPILE_SERVER_BINARY=str(binary))
    assert answer["origin"] == "eager"
    assert str(answer["reason"]).startswith("compiled anew, and again it cannot be loaded: ")
    stats = hpu_compile(private_cache, "stats", HPU_COMPILE_SERVER_BINARY=str(binary))
    assert (stats["compile.compiled"], stats["compile.recompiles"]) == (2, 1)


def test_a_program_that_arrives_damaged_is_compiled_anew(private_cache: Path) -> None:
    """The client trusts another signer than the server's, as after a mix-up of key files."""
    run(private_cache)
    (public_key,) = private_cache.rglob("*.sock.pub")
    good = public_key.read_bytes()
    before = f"""
from pathlib import Path
from habana_frameworks.torch.dynamo.programs import lookup
key, good = Path({str(public_key)!r}), bytes.fromhex({good.hex()!r})
fetch = lookup.service.fetch
def fetch_with_a_wrong_key(*arguments):
    key.write_bytes(bytes(32))
    try:
        return fetch(*arguments)
    finally:
        key.write_bytes(good)
lookup.service.fetch = fetch_with_a_wrong_key
"""
    after = 'assert "is signed by key" in graph.unusable, graph.unusable'
    assert run(private_cache, before, after)["origin"] == "compiled"
    assert hpu_compile(private_cache, "stats")["compile.recompiles"] == 1
    assert run(private_cache)["origin"] == "store"
    assert os.stat(public_key).st_size == 32
