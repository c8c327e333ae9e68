"""Graphs whose sizes change: forecast, programs made ahead, bounds. On the device."""

from __future__ import annotations

import pytest
import sympy
import torch
from conftest import settle

from habana_frameworks.torch.dynamo import report
from habana_frameworks.torch.dynamo.dynamic.size_forecast import SizeForecast
from habana_frameworks.torch.dynamo.programs import binding
from habana_frameworks.torch.dynamo.programs.service import NoProgram, service
from habana_frameworks.torch.dynamo.records import records

S0, S1 = sympy.symbols("s0 s1")


def forecast(sizes, ahead=4):
    made = SizeForecast(ahead)
    for size in sizes:
        made.met({S0: size})
    return made


def taken(made, allowed=lambda sizes: True):
    found = []
    while (sizes := made.take(allowed)) is not None:
        found.append(sizes[S0])
    return found


@pytest.mark.parametrize(
    ("met", "next_sizes"),
    [
        ([8], []),
        ([8, 9, 10], [11, 12, 13, 14]),
        ([96, 64, 32], [0, -32, -64, -96]),
        ([16, 64, 32], [48, 16]),  # multiples of 16; 16 has been met
        ([5, 12, 9], [10, 8]),
    ],
)
def test_the_likely_next_sizes(met, next_sizes):
    wanted = [size for size in next_sizes if size not in met]
    assert taken(forecast(met)) == wanted
    assert taken(forecast(met), lambda sizes: sizes[S0] > 12) == [s for s in wanted if s > 12]
    assert taken(forecast(met, ahead=0)) == []


def test_every_size_is_made_once():
    made = forecast([8, 9, 10], ahead=2)
    assert taken(made) == [11, 12]
    made.met({S0: 11})
    assert taken(made) == [13]


def test_a_forecast_that_is_wrong_three_times_of_four_ends():
    made = forecast([1000, 2000], ahead=4)
    guesses = 0
    for size in (7001, 3011, 9013, 5023, 8039, 4051, 6067, 2999, 9719):
        made.met({S0: size})
        guesses += len(taken(made))
    assert 8 <= guesses <= 12


def test_sizes_that_grow_by_one_are_counted():
    assert forecast([4, 5, 6, 7]).growing == 3
    assert forecast([4, 5, 6, 8]).growing == 0


def attend(x):
    return torch.softmax(x @ x.T, -1) @ x


@pytest.fixture
def fresh(monkeypatch, private_cache):
    monkeypatch.setenv("HPU_CACHE_DIR", str(private_cache))
    monkeypatch.setattr(binding, "_warned", set())
    torch._dynamo.reset()
    service.reset()
    records.reset()
    yield
    service.reset()
    records.reset()
    torch._dynamo.reset()


def dynamic(function, **options):
    options = {"compile_ahead": 0, **options}
    return torch.compile(function, backend="hpu_backend", dynamic=True, options=options)


def call(function, eager, rows):
    with torch.no_grad():
        x = torch.randn(rows, 8)
        got = function(x.to("hpu")).cpu()
    torch.testing.assert_close(got, eager(x), rtol=1e-5, atol=1e-5)


def test_growing_sizes_are_compiled_ahead_and_waited_for_by_nobody(fresh):
    function = dynamic(attend, compile_ahead=2)
    for rows in (4, 5, 6):
        call(function, attend, rows)
    settle()
    made = [g for g in report().graphs if g.ahead]
    assert len(made) >= 2, "7 and 8 at least"
    before = len(report().graphs)
    call(function, attend, 7)
    settle()
    asked = [g for g in report().graphs[before:] if not g.ahead]
    assert asked == [], "7 was there"
    assert "ahead of its first call" in str(report())


def test_what_is_ahead_has_the_state_of_the_thread_that_asked(fresh):
    function = dynamic(attend, compile_ahead=2)
    with torch.autocast("hpu", torch.bfloat16), torch.no_grad():
        for rows in (4, 5, 6, 7):
            x = torch.randn(rows, 8)
            y = function(x.to("hpu"))
            assert y.dtype is torch.bfloat16
            settle()
    factors = [dict(g.factors) for g in report().graphs]
    assert {f["autocast"] for f in factors} == {factors[0]["autocast"]}
    assert {f["grad_mode"] for f in factors} == {"False"}
    assert any(g.ahead for g in report().graphs)


def test_training_sizes_are_made_ahead_with_their_backward(fresh):
    w = torch.randn(8, 8, device="hpu", requires_grad=True)
    function = dynamic(lambda x: (x @ w).relu().sum(), compile_ahead=2)
    for rows in (4, 5, 6, 7, 8):
        x = torch.randn(rows, 8)
        w.grad = None
        function(x.to("hpu")).backward()
        leaf = w.detach().cpu().requires_grad_()
        (x @ leaf).relu().sum().backward()
        torch.testing.assert_close(w.grad.cpu(), leaf.grad, rtol=1e-5, atol=1e-5)
        settle()
    assert any(g.ahead for g in report().graphs)
    assert report().eager_segments == 0


def test_programs_are_bounded_in_number(fresh):
    function = dynamic(attend, dynamic_programs=2)
    for rows in (3, 5, 3, 7, 3, 5):  # 7 takes the place of 5, which comes again
        call(function, attend, rows)
    origins = [g.origin for g in report().graphs]
    assert origins == ["compiled", "compiled", "compiled", "store"]
    assert report().dropped_shapes == 2
    assert "dropped: 2 programs of dynamic graphs" in str(report())


def test_programs_are_bounded_in_bytes(fresh):
    function = dynamic(attend, dynamic_program_mb=0)
    for rows in (3, 5, 3):
        call(function, attend, rows)
    assert [g.origin for g in report().graphs] == ["compiled", "compiled", "store"]
    assert report().dropped_shapes == 2
    assert min(g.program_bytes for g in report().graphs) > 1000


def test_a_graph_that_spent_its_seconds_takes_what_is_stored(fresh, caplog):
    call(dynamic(attend), attend, 5)
    torch._dynamo.reset()
    service.forget_programs()
    records.reset()
    function = dynamic(attend, dynamic_compile_s=1e-9)
    for rows in (3, 5, 7):  # the first one uses up the seconds
        call(function, attend, rows)
    assert [g.origin for g in report().graphs] == ["compiled", "store"]
    said = [r.message for r in caplog.records if "dynamic_compile_s" in r.message]
    assert len(said) == 1
    assert "sizes that no store has run eagerly from now on" in said[0]


def views(x):
    """A graph that is partitioned (partitioned/)."""
    y = x * 2.5
    return y.view(-1), y.t()


def train_on(function, *rows):
    for n in rows:
        w = torch.ones(n, 5).to("hpu").requires_grad_()
        first, second = function(w)
        (first.sum() + second.sum()).backward()
        assert w.grad.cpu().eq(5).all()


def test_bounds_hold_for_sizes_that_become_parts(fresh):
    function = dynamic(views, dynamic_programs=1, compile_ahead=0)
    train_on(function, 4, 5, 6, 7)
    assert service.program_count() == 2  # the forward and backward of the newest
    assert report().dropped_shapes == 3
    torch._dynamo.reset()
    records.reset()
    function = dynamic(views, dynamic_program_mb=0, compile_ahead=0)
    train_on(function, 4, 5, 6, 7)
    assert report().dropped_shapes == 3


def test_parts_that_spent_their_seconds_take_what_is_stored(fresh):
    stored = dynamic(views)
    train_on(stored, 4)
    stored(torch.ones(8, 5).to("hpu").requires_grad_())  # its forward alone
    torch._dynamo.reset()
    service.forget_programs()
    records.reset()
    train_on(dynamic(views, dynamic_compile_s=0.0), 4, 8, 9)
    assert [(g.name.rpartition("_")[2], g.origin) for g in report().graphs] == [
        ("forward", "store"),
        ("backward", "store"),
        ("forward", "store"),
        ("backward", "eager"),
    ]


def test_a_size_without_a_program_is_asked_for_once(fresh):
    function = dynamic(attend, dynamic_compile_s=1e-9)
    for rows in (3, 5, 5, 5):
        call(function, attend, rows)
    asked = service.connect().stats()["compile.requests"]
    for _ in range(5):
        call(function, attend, 5)
    assert service.connect().stats()["compile.requests"] == asked


def test_a_guess_that_found_no_program_is_asked_for_by_its_caller(fresh, monkeypatch):
    function = dynamic(attend, compile_ahead=1)
    submit = service.compile

    def busy(job, record, progress):
        if job.warm_up:
            raise NoProgram("the queue is full", lasting=False)
        return submit(job, record, progress)

    monkeypatch.setattr(service, "compile", busy)
    for rows in (4, 5, 6, 7):
        call(function, attend, rows)
        settle()
    assert any(g.ahead and g.origin == "eager" for g in report().graphs)
    assert all(g.origin == "compiled" for g in report().graphs if not g.ahead)


def test_a_size_that_grows_with_every_call_is_told_once(fresh, caplog):
    function = dynamic(attend)
    for rows in range(3, 16):
        call(function, attend, rows)
    said = [r.message for r in caplog.records if "grows by one" in r.message]
    assert len(said) == 1
    assert 'cache_implementation="static"' in said[0]


def test_guards_bound_what_is_made_ahead(fresh):
    """A graph that holds for up to 8 rows is not made for 9."""

    def narrow(x):
        return attend(x) if x.shape[0] <= 8 else x

    function = dynamic(narrow, compile_ahead=4)
    for rows in (5, 6, 7):
        call(function, narrow, rows)
    settle()
    assert len([g for g in report().graphs if g.ahead]) <= 2
    shapes = {dict(g.factors).get("input 0", "") for g in report().graphs}
    assert not any("[9" in shape for shape in shapes)


def test_numbers_of_modules_that_dynamo_takes_for_inputs(fresh):
    """With dynamic=True a float attribute of a module is an input; sizes are made ahead too."""

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 0.37

        def forward(self, x):
            return attend(x) * self.scale

    model = Scaled()
    function = dynamic(model, compile_ahead=2)
    for rows in (4, 5, 6, 7):
        call(function, model, rows)
        settle()
    assert report().eager_segments == 0, report().eager_reasons
    assert any(g.ahead for g in report().graphs)
    asked = {g.front_end_key for g in report().graphs if not g.ahead}
    assert len(asked) < 4, "one of the sizes was there"
