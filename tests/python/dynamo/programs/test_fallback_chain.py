"""The fallback chain memory -> store -> compile -> eager, without a server and a device."""

from __future__ import annotations

import contextlib
import logging

import fake_service
import pytest
import torch
from fallback_chain import W, X, affine, compiled, new_process, run

from habana_frameworks.torch.dynamo import explain, hook, report
from habana_frameworks.torch.dynamo.compile_backend import passes, shared_layer
from habana_frameworks.torch.dynamo.programs import lookup


def test_miss_then_memory_then_store(store):
    assert run(affine, X, W).graphs[-1].origin == "compiled"
    torch._dynamo.reset()  # MODE-15: wrapping again must not compile again
    assert run(affine, X, W).graphs[-1].origin == "memory"
    new_process()
    summary = run(affine, X, W)
    assert summary.graphs[-1].origin == "store"
    assert (summary.compilations, summary.hits, summary.eager_segments) == (0, 1, 0)
    assert store.compilations == 1


def test_hit_captures_nothing(store, monkeypatch):
    run(affine, X, W)
    new_process()

    def refuse(*_, **__):
        raise AssertionError("captured on a hit")

    monkeypatch.setattr(lookup, "capture", refuse)
    assert run(affine, X, W).hits == 1


def test_equal_graphs_of_different_functions_share_a_program(store):
    def one(first, second):
        return torch.relu(first @ second) + 1

    run(affine, X, W)
    torch._dynamo.reset()
    assert run(one, X, W).graphs[-1].origin == "memory"


@pytest.mark.parametrize(
    "change",
    [
        lambda: (affine, torch.randn(8, 6), W),
        lambda: (affine, torch.randn(6, 4).t(), W),
        lambda: (affine, X.double(), W.double()),
        lambda: (lambda x, w: torch.relu(x @ w) + 2, X, W),
        lambda: (lambda x, w: torch.relu(x @ w) + 1.0, X, W),
        lambda: (lambda x, w: torch.relu(w.t() @ x.t()) + 1, X, W),
    ],
)
def test_what_changes_the_program_changes_the_key(store, change):
    first = run(affine, X, W).graphs[-1]
    torch._dynamo.reset()
    second = run(*change()).graphs[-1]
    assert second.origin == "compiled"
    assert first.front_end_key != second.front_end_key


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_global_state_enters_the_key(store):
    keys = []
    for state in (
        torch.no_grad(),
        torch.enable_grad(),
        torch.autocast("cpu", dtype=torch.bfloat16),
        torch.autocast("cpu", dtype=torch.float16),
        deterministic(),
    ):
        torch._dynamo.reset()
        with state:
            compiled(affine)(X, W)
        keys.append(report().graphs[-1].front_end_key)
    assert len(set(keys)) == len(keys)


def test_every_miss_can_be_explained(store):
    run(affine, X, W)
    torch._dynamo.reset()
    run(affine, torch.randn(8, 6), W)
    explanation = explain()
    assert dict(explanation.factors)["input 0"].startswith("float32[8, 6]")
    changed = {d.factor for d in explanation.differences}
    assert changed == {"input 0", "all inputs"}
    assert "float32[4, 6]" in str(explanation)
    assert f"content key {report().graphs[-1].content_key}" in str(explanation)
    assert explanation.content_factors == [("graph", explanation.content_key)]


def test_opaque_function_has_no_front_end_key(store):
    """Such a graph is captured in every process, and the program of the captured graph is
    stored."""
    from torch._dynamo import allow_in_graph

    class Scale:
        factor = 3

    scale = Scale()

    @allow_in_graph
    def opaque(x):
        return x * scale.factor

    function = lambda x: opaque(x) + 1
    graph = run(function, X).graphs[-1]
    assert graph.origin == "compiled"
    assert not graph.cacheable
    assert graph.reason.startswith("captured in every process: ")
    assert "refers to scale, a Scale" in graph.reason
    assert graph.front_end_key == "" and store.aliases == {}
    torch._dynamo.reset()
    again = run(function, X).graphs[-1]
    assert again.origin == "store" and again.capture_ms > 0
    scale.factor = 4
    torch._dynamo.reset()
    assert run(function, X).graphs[-1].origin == "compiled"


def test_no_server_means_eager_with_one_warning_and_one_wait(store, caplog):
    store.start_error = RuntimeError("cannot bind")
    with caplog.at_level(logging.WARNING):
        run(affine, X, W)
        torch._dynamo.reset()
        summary = run(lambda x: x.exp(), X)
    assert summary.eager_segments == 2
    assert store.starts == 1
    assert sum("cannot bind" in r.message for r in caplog.records) == 2  # one per graph
    assert "no compile server: cannot bind" in summary.eager_reasons


def test_require_server_raises(store):
    store.start_error = RuntimeError("cannot bind")
    with pytest.raises(Exception, match="cannot bind"):
        run(affine, X, W, require_server=True)


def test_lost_server_is_replaced_once(store):
    store.compile_errors = [fake_service.ServerUnavailable("gone")]
    assert run(affine, X, W).graphs[-1].origin == "compiled"
    assert store.starts == 2


def test_server_that_stays_away(store):
    store.compile_errors = [fake_service.ServerUnavailable("gone")] * 2
    assert run(affine, X, W).graphs[-1].origin == "eager"
    torch._dynamo.reset()
    run(lambda x: x.exp(), X)
    assert store.starts == 2  # not asked again for a while


def test_unsupported_graph_is_remembered(store):
    store.compile_errors = [fake_service.CompileError("no such op", "UNIMPLEMENTED")]
    assert run(affine, X, W).graphs[-1].reason == "no such op"
    torch._dynamo.reset()
    assert run(affine, X, W).graphs[-1].origin == "eager"
    assert store.compilations == 0


@pytest.mark.parametrize(
    "code",
    ["DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE"],
)
def test_passing_failure_is_about_one_graph_and_not_remembered(store, code):
    """A refusal may have any code; the server is asked again for every other graph."""
    store.compile_errors = [fake_service.CompileError("the verdict", code)]
    graph = run(affine, X, W).graphs[-1]
    assert (graph.origin, graph.reason) == ("eager", "the verdict")
    torch._dynamo.reset()
    assert run(lambda x: x.exp(), X).graphs[-1].origin == "compiled"
    torch._dynamo.reset()
    assert run(affine, X, W).graphs[-1].origin == "compiled"
    assert store.starts == 1


def test_interrupt_reaches_the_user(store):
    store.compile_errors = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        run(affine, X, W)


def test_grad_mode_without_gradients_is_compiled(store):
    compiled(affine)(X, W)
    assert report().graphs[-1].origin == "compiled"


def test_tensors_elsewhere_mean_eager_with_advice(store, monkeypatch, caplog):
    monkeypatch.setattr(lookup, "DEVICE", "hpu")
    with caplog.at_level(logging.WARNING):
        summary = run(affine, X, W)
    assert summary.graphs[-1].reason == "no input is on hpu"
    assert any('.to("hpu")' in r.message for r in caplog.records)


def test_aliased_inputs_at_call_time(store, monkeypatch):
    function = compiled(lambda x: x.add_(1) * 2)
    with torch.no_grad():
        function(X.clone())
        monkeypatch.setattr(fake_service.Program, "alias_error", True)
        x = X.clone()
        assert torch.equal(function(x), (X + 1) * 2)
        assert torch.equal(x, X + 1)
    (calls,) = report().graphs[-1].eager_calls.values()
    assert calls == 1


def test_dynamic_shapes_have_a_program_each(store):
    options = {"compile_ahead": 0}
    function = torch.compile(affine, backend=hook.hpu_backend, dynamic=True, options=options)
    with torch.no_grad():
        for rows in (3, 5, 3, 7):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(function(x, W), affine(x, W))
    assert [g.origin for g in report().graphs] == ["compiled"] * 3
    new_process()
    function = torch.compile(affine, backend=hook.hpu_backend, dynamic=True, options=options)
    with torch.no_grad():
        function(torch.randn(7, 6), W)
    assert report().graphs[-1].origin == "store"


def test_mark_dynamic(store):
    function = compiled(lambda x: x.sum(0) * x.shape[0])
    with torch.no_grad():
        for rows in (4, 9):
            x = torch.randn(rows, 6)
            torch._dynamo.mark_dynamic(x, 0)
            torch.testing.assert_close(function(x), x.sum(0) * rows)


def test_graph_break_makes_two_programs(store):
    def function(x):
        y = x.relu()
        torch._dynamo.graph_break()
        return y + 1

    assert [g.origin for g in run(function, X).graphs] == ["compiled", "compiled"]


def test_attributes_become_inputs(store):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(6, 5))

        def forward(self, x):
            return x @ self.weight

    module = Module().requires_grad_(False)
    traced = torch.fx.symbolic_trace(module)
    call = hook.hpu_backend(traced, [X])
    (got,) = call(X)
    assert torch.equal(got, module(X))
    module.weight.data.zero_()
    assert not call(X)[0].any()


@pytest.mark.parametrize("option", ["use_compiled_recipes", "inference"])
def test_options_that_switch_compilation_off(store, option):
    assert option in run(affine, X, W, **{option: False}).graphs[-1].reason


def test_keep_input_mutations_off(store):
    torch._dynamo.reset()
    with torch.no_grad():
        function = compiled(lambda x: x.add_(1), keep_input_mutations=False)
        x = X.clone()
        function(x)
    assert torch.equal(x, X + 1)
    assert report().graphs[-1].origin == "eager"


def test_compiling_in_a_forked_child_is_eager(store, monkeypatch):
    run(affine, X, W)
    starts, compilations = store.starts, store.compilations
    monkeypatch.setattr("os.getpid", lambda: -1)
    torch._dynamo.reset()
    assert "forked" in run(lambda x: x.exp(), X).graphs[-1].reason
    assert (store.starts, store.compilations) == (starts, compilations), "nobody was asked"


def test_logs_that_other_programs_parse(store):
    """bridge.md section 5: graph listing after the marker, one decision per node."""
    passes.logger.set_store_data(True)
    shared_layer.logger.set_store_data(True)
    try:
        run(affine, X, W)
        head, _, body = passes.logger.data[0].partition("\n")
        assert head == "[PT_COMPILE] ####PyTorch-generated JIT IR graph for this HPU graph:####"
        assert body.startswith("graph(%0 : Tensor, %1 : Tensor):")
        assert "aten::matmul(%0, %1)" in body
        decisions = shared_layer.logger.data
        assert decisions[0].startswith("[PT_COMPILE] Node: ")
        assert all(line.endswith("requires fallback: False") for line in decisions)
        assert len(decisions) == 3
    finally:
        passes.logger.set_store_data(False)
        shared_layer.logger.set_store_data(False)
