"""Keys of the fallback chain, unusable programs, and what is cached; with a service in memory."""

from __future__ import annotations

import logging
import re
import sys
import threading
from pathlib import Path

import fake_service
import pytest
import torch
from fallback_chain import W, X, affine, compiled, new_process, run
from paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import python_arrows

from habana_frameworks.torch.dynamo import hook, report
from habana_frameworks.torch.dynamo.keys import graph_key
from habana_frameworks.torch.dynamo.records import records


def test_front_ends_that_make_the_same_graph_share_its_program(store):
    first = run(lambda x, w: torch.relu(x @ w) + 1, X, W).graphs[-1]
    torch._dynamo.reset()
    second = run(lambda x, w: torch.relu(torch.matmul(x, w)) + 1, X, W).graphs[-1]
    assert first.front_end_key != second.front_end_key
    assert first.content_key == second.content_key
    assert (first.origin, second.origin, store.compilations) == ("compiled", "store", 1)
    assert len(store.aliases) == 2 and len(store.programs) == 1


def test_changed_capture_code_costs_a_capture_and_no_compilation(store, monkeypatch):
    run(affine, X, W)
    new_process()
    monkeypatch.setattr(graph_key, "capture_digest", lambda: "of another version")
    graph = run(affine, X, W).graphs[-1]
    assert (graph.origin, store.compilations) == ("store", 1)
    assert graph.capture_ms > 0
    new_process()
    assert run(affine, X, W).graphs[-1].capture_ms == 0, "its own alias is there now"


def test_capture_digest_covers_what_makes_graphs():
    """The digest covers every module that graph_capture needs, however indirectly, and those that
    Dynamo asks."""
    root = Path(hook.__file__).parents[1]
    files = {
        str(path.relative_to(root)): path.read_text()
        for path in root.glob("**/*.py")
        if "__pycache__" not in path.parts
    }
    found, todo = set(), {"dynamo/capture/graph_capture.py"}
    todo |= {name for name in files if name.startswith("dynamo/patches/")}
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= {target for _, target in python_arrows.imports(name, files[name], files)} - found
    for folder in graph_key.GRAPH_MAKERS:
        assert any(name.startswith(f"{folder}/") for name in found), folder
    # They register and look at what is registered, which the key tells by itself, read flags that
    # are factors of the key, or only turn the garbage collector off.
    makers = tuple(f"{folder}/" for folder in graph_key.GRAPH_MAKERS)
    others = {name for name in found if not name.startswith(makers)}
    assert others == {
        "internal/bridge_config.py",
        "internal/collector.py",
        "internal/flag_table.py",
        "internal/notices.py",
        "internal/registrations.py",
        "internal/switches.py",
        "native.py",
    }


def test_labels_say_where_a_graph_comes_from(store):
    class Affine(torch.nn.Module):
        def forward(self, x):
            return x + 1

    run(affine, X, W)
    with torch.no_grad():
        compiled(Affine())(X)
    linear = torch.nn.Linear(X.shape[-1], 2)

    def halves(x):
        x = x * 2
        torch._dynamo.graph_break()
        return x - 1

    with torch.no_grad():
        compiled(lambda x: linear(x))(X)
        compiled(halves)(X)
    function, method, module, first, second = store.labels
    assert re.fullmatch(r"graph_0 affine \(fallback_chain\.py:\d+\)", function)
    assert re.fullmatch(r"graph_1 Affine \(test_fallback_chain_keys\.py:\d+\)", method)
    # A function that calls a module; the line is the user's, not that in torch.nn.
    assert re.fullmatch(r"graph_2 Linear \(test_fallback_chain_keys\.py:\d+\)", module)
    assert re.fullmatch(r"graph_3 halves \(test_fallback_chain_keys\.py:\d+\)", first)
    assert re.fullmatch(r"graph_4 halves \(test_fallback_chain_keys\.py:\d+\)", second)


@pytest.mark.parametrize("code", ["DATA_LOSS", "PERMISSION_DENIED"])
def test_program_that_arrives_damaged_is_compiled_anew(store, caplog, code):
    run(affine, X, W)
    new_process()
    store.get_errors = [fake_service.CompileError("blob 1 is damaged", code)]
    with caplog.at_level(logging.WARNING):
        summary = run(affine, X, W)
    assert summary.graphs[-1].origin == "compiled"
    assert summary.graphs[-1].unusable == "it arrived damaged: blob 1 is damaged"
    assert (summary.recompilations, store.recompilations, store.compilations) == (1, 1, 2)
    assert "graph_0 is compiled anew: it arrived damaged: blob 1 is damaged" in caplog.messages
    assert "compiled anew: it arrived damaged" in str(summary)
    new_process()
    assert run(affine, X, W).graphs[-1].origin == "store"


def test_program_that_cannot_be_loaded_is_compiled_anew_once(store, monkeypatch):
    run(affine, X, W)
    new_process()
    errors = [RuntimeError("recipe 0: no kernel"), RuntimeError("recipe 0: no kernel")]
    monkeypatch.setattr(fake_service.Program, "load_errors", errors[:1])
    graph = run(affine, X, W).graphs[-1]
    assert (graph.origin, graph.unusable) == (
        "compiled",
        "it cannot be loaded: recipe 0: no kernel",
    )
    new_process()
    monkeypatch.setattr(fake_service.Program, "load_errors", errors)
    graph = run(affine, X, W).graphs[-1]
    assert (graph.origin, graph.reason) == (
        "eager",
        "compiled anew, and again it cannot be loaded: recipe 0: no kernel",
    )
    assert store.recompilations == 2
    torch._dynamo.reset()
    assert run(affine, X, W).graphs[-1].origin == "store", "not remembered"


def test_want_of_memory_is_no_reason_to_compile_anew(store, monkeypatch):
    run(affine, X, W)
    new_process()
    monkeypatch.setattr(fake_service.Program, "load_errors", [torch.OutOfMemoryError("full")])
    graph = run(affine, X, W).graphs[-1]
    assert (graph.origin, graph.reason) == ("eager", "no memory to load the program: full")
    assert store.recompilations == 0


def test_joined_compilations_are_told_apart(store):
    store.joins = True
    summary = run(affine, X, W)
    assert summary.graphs[-1].origin == "coalesced"
    assert (summary.compilations, summary.joined, summary.hits) == (0, 1, 0)
    assert "0 compiled, 1 compiled by others at the same time" in str(summary)


def test_the_report_is_bounded_and_says_so(store, monkeypatch):
    monkeypatch.setattr(records, "MAX_GRAPHS", 3)
    for _ in range(5):
        torch._dynamo.reset()
        summary = run(affine, X, W)
    assert [g.name for g in summary.graphs] == ["graph_2", "graph_3", "graph_4"]
    assert summary.dropped_graphs == 2
    assert "not listed: 2 older graphs" in str(summary)
    assert summary.as_dict()["dropped_graphs"] == 2


def test_records_from_many_threads_are_all_counted(store, monkeypatch):
    monkeypatch.setattr(records, "MAX_GRAPHS", 100)
    threads = [
        threading.Thread(target=lambda: [records.add(records.GraphRecord("g")) for _ in range(500)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(report().graphs) + report().dropped_graphs == 2000
    assert len(report().graphs) == 100
