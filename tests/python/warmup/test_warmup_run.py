"""Warm-ups from Python: every shape compiled and launched, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import weakref

import pytest
import torch
from helpers import fresh_process
from processes import output_of

from habana_frameworks.torch import warmup
from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.programs.service import NoProgram, service

BUCKETS = warmup.Buckets(batch=[1, 2, 3], sequence=[4, 8, 12, 16])


@pytest.fixture
def fresh(private_cache, monkeypatch):
    """A daemon with an empty store, for a process that has compiled nothing."""
    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache))
    start_again()
    yield
    service.reset()


def start_again():
    fresh_process()
    service.reset()


def function(x):
    return torch.softmax(x.tanh() * 3, -1)


def caller(dynamic=False, body=function, **options):
    compiled = torch.compile(body, backend="hpu_backend", dynamic=dynamic, options=options or None)

    def run(shape):
        x = torch.ones(shape.batch, shape.sequence)
        with torch.no_grad():
            out = compiled(x.to("hpu"))
        torch.testing.assert_close(out.cpu(), body(x))
        return out

    return run


@pytest.mark.parametrize("dynamic", [False, None])
def test_all_shapes_are_there_afterwards(fresh, dynamic):
    """There are more shapes than Dynamo's limit of 8; the calls of a service then compile
    nothing."""
    run = caller(dynamic)
    done = warmup.run(run, BUCKETS)
    assert done.complete
    assert (done.compiled, done.hits, done.failed) == (12, 0, 0)
    assert [row.shape for row in done.rows] == BUCKETS.shapes()
    assert all(row.launched and len(row.programs) == 1 for row in done.rows)
    compiled = service.connect().stats()["compile.compiled"]
    # Dynamo's first graph has no symbols. A shape that waited for it may be called with the second
    # graph.
    assert compiled == 12 if dynamic is False else 12 <= compiled <= 15
    graphs = len(report().graphs)
    for shape in BUCKETS.shapes():
        run(shape)
    assert len(report().graphs) == graphs
    # Another process gets them from the store.
    start_again()
    again = warmup.run(caller(dynamic), BUCKETS)
    assert (again.compiled, again.hits) == (0, 12)
    if dynamic is False:
        assert [row.programs for row in again.rows] == [row.programs for row in done.rows]


def test_no_input_outlives_its_shape(fresh):
    """Dynamo's wrapper of a callable copies its attributes, among which were the example inputs."""
    inputs = []

    @torch.compile(backend="hpu_backend", dynamic=False)
    def compiled(x):
        return function(x)

    def run(shape):
        x = torch.ones(shape.batch, shape.sequence).to("hpu")
        inputs.append(weakref.ref(x))
        compiled(x)

    with torch.no_grad():
        assert warmup.run(run, BUCKETS).complete
    gc.collect()
    assert len(inputs) >= 12
    assert not [x for x in inputs if x() is not None]


def test_requests_are_at_the_server_together(fresh, monkeypatch):
    """The first program is held back until three more are requested. Only one thread calls user
    code, and every request says that it comes from a warm-up."""
    compile = service.compile
    at_server = threading.Semaphore(0)
    first = threading.Lock()
    jobs, callers = [], set()

    def slow(job, record, progress):
        jobs.append(job)
        at_server.release()
        if first.acquire(blocking=False):
            for _ in range(4):
                assert at_server.acquire(timeout=60)
        return compile(job, record, progress)

    monkeypatch.setattr(service, "compile", slow)
    run = caller()

    def counted(shape):
        callers.add(threading.get_ident())
        run(shape)

    assert warmup.run(counted, BUCKETS, parallel=4).compiled == 12
    assert all(job.warm_up for job in jobs)
    assert callers == {threading.get_ident()}


def test_a_shape_that_is_traced_again_was_compiled(fresh):
    """A value that guards read changes while the programs are compiled, as calls of another model
    may change it."""
    shapes, state, calls = BUCKETS.shapes()[:3], {"own": 1}, []

    @torch.compile(backend="hpu_backend", dynamic=False)
    def compiled(x):
        return function(x) * (1 if len(state) < 9 else 2)

    def run(shape):
        calls.append(shape)
        if len(calls) == len(shapes) + 1:  # all wait for their programs
            state["other"] = 1
        compiled(torch.ones(shape.batch, shape.sequence).to("hpu"))

    with torch.no_grad():
        done = warmup.run(run, shapes)
    assert (done.compiled, done.hits, done.failed) == (3, 0, 0)


def test_a_request_meets_a_shape_that_is_being_compiled(fresh, monkeypatch):
    """The request waits for that program, and the warm-up continues."""
    compile = service.compile
    go = threading.Event()
    asked = threading.Event()

    def held(job, record, progress):
        asked.set()
        assert go.wait(60)
        return compile(job, record, progress)

    monkeypatch.setattr(service, "compile", held)
    run = caller()
    handle = warmup.start(run, [warmup.Shape(3, 16)])
    assert asked.wait(60)
    with pytest.raises(TimeoutError, match="0 of 1: 0 hits, 0 compiled"):
        handle.wait(0.1)
    assert not handle.ready
    results = []
    request = threading.Thread(target=lambda: results.append(run(warmup.Shape(3, 16))))
    request.start()
    request.join(0.3)
    assert request.is_alive()
    go.set()
    request.join(60)
    assert len(results) == 1
    assert handle.wait(60).complete


def test_progress_and_readiness(fresh):
    told, ready = [], []
    shapes = BUCKETS.shapes()[:3]

    def broken(progress):
        told.append(progress)
        raise RuntimeError("of the user's")

    handle = warmup.start(caller(), shapes, on_progress=broken, on_ready=ready.append)
    done = asyncio.run(handle.wait_async())
    assert handle.ready
    assert handle.progress == warmup.Progress(3, 3, 0, 3, 0, 0.0)
    assert [progress.done for progress in told] == [1, 2, 3]
    handle._thread.join(60)
    assert ready == [done]


def test_graph_breaks_and_failures_are_in_their_rows(fresh):
    """A call has two programs, and the second is reached only by running the first."""

    def broken(x):
        y = x.tanh()
        torch._dynamo.graph_break()
        return y * 2 + 1

    run = caller(body=broken)

    def sometimes(shape):
        if shape.batch == 2:
            raise KeyError("no input for two")
        run(shape)

    ready = []
    handle = warmup.start(sometimes, warmup.Buckets([1, 2, 3], [4]), on_ready=ready.append)
    done = handle.wait(120)
    assert [(r.result, len(r.programs)) for r in done.rows] == [
        ("compiled", 2),
        ("failed", 0),
        ("compiled", 2),
    ]
    assert "KeyError: 'no input for two'" in done.table()
    assert not done.complete
    assert not handle.ready
    assert ready == []
    assert json.loads(done.to_json())["rows"][1]["shape"] == {"batch": 2, "sequence": 4}
    assert "no input for two" in done.to_html()


class Interruption(BaseException):
    """Frameworks have such exceptions, which pass `except Exception`."""


def exit_thread():
    raise SystemExit


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (lambda: sys.exit(3), "SystemExit: 3"),
        (lambda: sys.exit("no weights"), "SystemExit: no weights"),
        (exit_thread, "SystemExit: "),
        (lambda: next(iter(())), "StopIteration: "),
        (lambda: (_ for _ in ()).throw(GeneratorExit()), "GeneratorExit: "),
        (lambda: (_ for _ in ()).throw(asyncio.CancelledError("late")), "CancelledError: late"),
        (lambda: (_ for _ in ()).throw(Interruption("stop")), "Interruption: stop"),
    ],
)
def test_user_code_that_ends_the_process_fails_its_shape_alone(fresh, end, text):
    """This is in the service's thread, where sys.exit would end the warm-up silently."""
    run, told = caller(), []

    def ends(shape):
        if shape.batch == 2:
            end()
        run(shape)

    def tell(progress):
        told.append(progress)
        end()

    handle = warmup.start(ends, warmup.Buckets([1, 2, 3], [4]), on_progress=tell)
    done = handle.wait(120)
    assert [row.result for row in done.rows] == ["compiled", "failed", "compiled"]
    assert done.rows[1].error == text
    assert done.stopped == ""
    assert len(told) == 3


def test_what_runs_eagerly_is_a_failure(fresh):
    done = warmup.run(caller(use_compiled_recipes=False), BUCKETS.shapes()[:1])
    assert done.rows[0].result == "failed"
    assert "runs eagerly: option use_compiled_recipes is off" in done.rows[0].error


def test_what_keeps_a_service_from_being_ready_is_in_the_log(fresh, caplog):
    ready = []
    shape = BUCKETS.shapes()[0]
    handle = warmup.start(caller(use_compiled_recipes=False), [shape], on_ready=ready.append)
    handle._thread.join(60)
    assert handle.done and not handle.ready and not ready
    (told,) = [r.getMessage() for r in caplog.records if r.name.endswith("torch.warmup")]
    assert "not every shape is there: 1 shapes in " in told
    assert f"; {shape}: graph_0 runs eagerly: option use_compiled_recipes is off" in told


def test_a_model_that_is_not_compiled_is_a_failure(fresh):
    shape = BUCKETS.shapes()[0]
    done = warmup.run(lambda shape: function(torch.ones(shape, device="hpu")), [shape])
    assert "no compiled graph was called" in done.rows[0].error
    # A shape that this process has compiled already is a hit.
    run = caller()
    assert warmup.run(run, [shape]).compiled == 1
    again = warmup.run(run, [shape])
    assert (again.hits, again.rows[0].graphs) == (1, 0)


def test_a_cancelled_warm_up_is_resumed(fresh):
    handle = warmup.start(
        caller(), BUCKETS, parallel=1, on_progress=lambda p: handle.cancel() if p.done == 2 else 0
    )
    done = handle.wait(120)
    assert (done.compiled, done.left, done.stopped) == (2, 10, "it was cancelled")
    start_again()
    again = warmup.run(caller(), BUCKETS)
    assert again.complete
    assert again.hits >= 2
    assert again.hits + again.compiled == 12
    assert service.connect().stats()["compile.compiled"] == 12


def test_a_lost_server_stops_it_and_requests_go_on(fresh, monkeypatch):
    compile = service.compile
    lost = []

    def losing(job, record, progress):
        if len(lost) >= 3:
            raise NoProgram("no compile server: it is gone", lasting=False)
        lost.append(job)
        return compile(job, record, progress)

    monkeypatch.setattr(service, "compile", losing)
    run = caller()
    done = warmup.run(run, BUCKETS, parallel=1)
    assert done.compiled == 3
    assert done.left == 9
    assert done.stopped == "no compile server: it is gone"
    # A request runs eagerly as long as there is no server, and its graph stays eager in this
    # process.
    run(BUCKETS.shapes()[3])
    monkeypatch.setattr(service, "compile", compile)
    again = warmup.run(run, BUCKETS)
    assert [row.shape for row in again.rows if row.result == "failed"] == [BUCKETS.shapes()[3]]
    assert again.left == 0
    assert (again.hits, again.compiled) == (3, 8)


def test_parallel_is_checked():
    with pytest.raises(ValueError, match="parallel 0: expected at least 1"):
        warmup.run(print, BUCKETS, parallel=0)


WARMED = """
import torch
from habana_frameworks.torch import warmup
from habana_frameworks.torch.dynamo import report
import warmed_model

buckets = warmup.Buckets(batch=[1, 2], sequence=[4, 8, 16])
model = warmed_model.Net().to("hpu")
compiled = torch.compile(model, backend="hpu_backend", dynamic=False)

def run(shape):
    with torch.no_grad():
        compiled(torch.ones(shape.batch, shape.sequence, device="hpu"))

done = warmup.run(run, buckets)
assert done.complete, done.table()
for shape in buckets.shapes():
    run(shape)
print(done.compiled, done.hits, sum(not graph.traced for graph in report().graphs))
"""
NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x.tanh() * 3, -1)
"""


def test_what_a_warm_up_compiled_starts_without_tracing(private_cache, tmp_path):
    """All six shapes of the first process start, although their programs came after Dynamo had its
    frames."""
    (tmp_path / "warmed_model.py").write_text(NET)
    how = {"folder": tmp_path, "HPU_CACHE_DIR": str(private_cache)}
    first = output_of(WARMED, **how)
    second = output_of(WARMED, **how)
    assert first.stdout.split() == ["6", "0", "0"]
    assert second.stdout.split() == ["0", "6", "6"]
