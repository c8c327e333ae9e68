"""Starts of modules that were edited in one place, in objects, classes, registries or code: never a
wrong answer (start_pairs/)."""

from __future__ import annotations

import os
import random
import shutil
import sys

import pytest
import start_pairs
import torch
from start_pairs import all_pairs, call, generated

import habana_frameworks.torch.dynamo.compile_backend.backends  # noqa: F401
from habana_frameworks.torch.dynamo.start import files

IDENTITIES = all_pairs("identities")
BREAKS = all_pairs("breaks")
OTHERS = all_pairs("registries", "kinds", "classes", "values") | {
    f"generated: {name}": text for name, text in generated().items()
}
# The others are slow: together they take a minute.
SHORT = [name for place, name in enumerate(OTHERS) if place % 5 == 0]


@pytest.fixture(autouse=True)
def process_without_starts():
    limit, argv, environment = sys.getrecursionlimit(), list(sys.argv), dict(os.environ)
    state, dtype = random.getstate(), torch.get_autocast_dtype("cpu")
    shutil.rmtree(files.folder(), ignore_errors=True)
    yield
    sys.setrecursionlimit(limit)
    sys.argv[:] = argv
    os.environ.clear()
    os.environ.update(environment)
    random.setstate(state)
    torch.set_autocast_dtype("cpu", dtype)
    torch._dynamo.reset()


def short(names):
    return [n if n in SHORT else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", IDENTITIES)
def test_which_objects_are_one_is_never_carried_to_another_process(name):
    one, other = call(IDENTITIES[name], 1), call(IDENTITIES[name], 2)
    assert not torch.equal(one.answer, other.answer)
    assert one.right and other.right, other
    assert not other.started


@pytest.mark.parametrize("name", short(OTHERS))
def test_an_edit_is_never_a_wrong_answer(name):
    one, other = call(OTHERS[name], 1), call(OTHERS[name], 2)
    assert not torch.equal(one.answer, other.answer)
    assert one.right and other.right, other
    assert not other.started


@pytest.mark.parametrize("name", BREAKS)
def test_what_broke_a_graph_once_breaks_no_later_one(name):
    """As many graphs as a process without starts has, and the reason of the trace."""
    broken, whole = call(BREAKS[name], 1), call(BREAKS[name], 2)
    alone = call(BREAKS[name], 2, from_starts=False)
    assert broken.right and whole.right and not any(broken.kept), broken
    assert whole.graphs == alone.graphs != 0
    assert any(whole.reasons), whole
    again = call(BREAKS[name], 2)
    assert again.started and again.graphs == alone.graphs, again
    assert call(BREAKS[name], 1).started


def test_pairs_that_are_the_same_start_without_tracing():
    """The facts are not so many that nothing starts."""
    texts = {**IDENTITIES, **OTHERS}
    some = list(texts)[::12]
    started = []
    for name in some:
        call(texts[name], 1)
        if call(texts[name], 1).started:
            started.append(name)
    assert len(started) >= 0.8 * len(some), sorted(set(some) - set(started))


REASONS = {
    "id()": ("id(o)", "id()"),
    "hash of text": ("hash('a') % 3", "hash() of what is no number"),
    "hash of a tuple": ("hash((1, 'a')) % 3", "hash() of what is no number"),
    "method of hash": ("'a'.__hash__() % 3", "__hash__"),
    "str()": ("len(str(o))", "str() or repr()"),
    "repr()": ("len(repr(o))", "str() or repr()"),
    "formatted": ("len(f'{o!r}')", "str() or repr()"),
    "text of a function": ("len(str(run))", "str() or repr()"),
    "order of a set": ("len(''.join({'a', 'b'}))", "goes through a set"),
    "order of a frozenset": ("len(''.join(S))", "goes through a set"),
}


@pytest.mark.parametrize("name", REASONS)
def test_what_holds_in_one_process_alone_is_not_kept(name):
    asked, reason = REASONS[name]
    text = (
        "class C: pass\nS = frozenset({'a', 'b'})\n"
        f"def run(x, o): return x * {asked} * 0\ndef make(): return (C(),)\n"
    )
    outcome = call(text, 1)
    assert outcome.right and len(outcome.kept) == 1 and reason in outcome.kept[0], outcome.kept


@pytest.mark.parametrize("asked", ["sorted({'a', 'b'})", "{3, 1, 2}", "{'a', 'b'} & {'b'}"])
def test_sets_whose_order_says_nothing_are_kept(asked):
    outcome = call(f"def run(x): return x * len([*{asked}])\n", 1)
    assert outcome.right and outcome.kept == [""]


def test_pairs_are_no_doubles():
    assert len({**IDENTITIES, **BREAKS, **OTHERS}) > 350
    assert len(set(start_pairs.generated().values())) == len(start_pairs.generated())
