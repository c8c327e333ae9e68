"""Starts of modules that were edited in one place, in objects, classes, registries or code, never
give a wrong answer (start_pairs/)."""

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
from habana_frameworks.torch.dynamo.start import files, guard_tree, trace

IDENTITIES = all_pairs("identities")
BREAKS = all_pairs("breaks")
OTHERS = all_pairs("registries", "kinds", "classes", "values") | {
    f"generated: {name}": text for name, text in generated().items()
}
# The other pairs are slow: together they take a minute.
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


@pytest.mark.parametrize("asks", ["instance", "type()"])
def test_classes_that_are_one_are_known_without_a_written_tree(monkeypatch, asks):
    def refuse(*_):
        raise guard_tree.Unwritable("as if it had a lambda")

    monkeypatch.setattr(trace, "write_tree", refuse)
    test_which_objects_are_one_is_never_carried_to_another_process(
        f"identities: {asks} of a class of the same text"
    )


@pytest.mark.parametrize("name", short(OTHERS))
def test_an_edit_is_never_a_wrong_answer(name):
    one, other = call(OTHERS[name], 1), call(OTHERS[name], 2)
    assert not torch.equal(one.answer, other.answer)
    assert one.right and other.right, other
    assert not other.started


@pytest.mark.parametrize("name", BREAKS)
def test_what_broke_a_graph_once_breaks_no_later_one(name):
    """There are as many graphs as in a process without starts, and the reason of the trace is the
    same."""
    broken, whole = call(BREAKS[name], 1), call(BREAKS[name], 2)
    alone = call(BREAKS[name], 2, from_starts=False)
    assert broken.right and whole.right and not any(broken.kept), broken
    assert whole.graphs == alone.graphs != 0
    assert any(whole.reasons), whole
    again = call(BREAKS[name], 2)
    assert again.started and again.graphs == alone.graphs, again
    assert call(BREAKS[name], 1).started


def test_pairs_that_are_the_same_start_without_tracing():
    """The facts are not so strict that nothing starts."""
    texts = {**IDENTITIES, **OTHERS}
    some = list(texts)[::12]
    started = []
    for name in some:
        call(texts[name], 1)
        if call(texts[name], 1).started:
            started.append(name)
    assert len(started) >= 0.8 * len(some), sorted(set(some) - set(started))


USED, TEXT = "traced code uses what id() or hash() gave", "traced code makes a text with an address"
ORDER = "traced code goes through a set"
# By the expression in the traced code: the reason why no start is kept.
REASONS = {
    "(id(f) % 64)": USED,
    "id(f) // 16": USED,
    "-id(f)": USED,
    "(id(f) > id(run))": USED,
    "len(str(id(f)))": USED,
    "len(hex(id(f)))": USED,
    "sum([id(f)])": USED,
    "min(id(f), id(run))": USED,
    "id(f).bit_length()": USED,
    "len(f'{id(f)}')": USED,
    "id(f)": USED,
    "[*{id(f), id(run)}][0]": ORDER,
    "len(sorted([f, run], key=id))": USED,
    "len(sorted([f, run], key=lambda o: id(o)))": USED,
    "(hash('a') % 3)": USED,
    "(hash((1, 'a')) % 3)": USED,
    "('a'.__hash__() % 3)": USED,
    "len(str(o))": TEXT,
    "len(repr(o))": TEXT,
    "len(f'{o!r}')": TEXT,
    "len(str(f))": TEXT,
    "len(''.join({'a', 'b'}))": ORDER,
    "len(''.join(S))": ORDER,
    "[*S][0].count('a')": ORDER,
}


@pytest.mark.parametrize("asked", REASONS)
def test_what_holds_in_one_process_alone_is_not_kept(asked):
    text = (
        "class C: pass\nS = frozenset({'a', 'b'})\ndef f(): pass\n"
        f"def run(x, o): return x * {asked} * 0\ndef make(): return (C(),)\n"
    )
    outcome = call(text, 1)
    assert outcome.right and REASONS[asked] in outcome.kept[0], outcome.kept


@pytest.mark.parametrize(
    "asked",
    [
        "{id(f): 2}[id(f)]",
        "(2 if id(f) == id(run) else 3)",
        "(2 if id(f) in {id(run)} else 3)",
        "len({id(f), id(run)})",
        "{hash('a'): 2}.get(hash('a'), 3)",
        "{Frozen(1): 2}[Frozen(1)]",
        "(2 if hash(f) == hash(run) else 3)",
    ],
)
def test_addresses_that_are_only_compared_are_kept(asked):
    text = (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Frozen:\n    a: int\n"
        f"def f(): pass\ndef run(x): return x * {asked}\n"
    )
    outcome = call(text, 1)
    assert outcome.right and outcome.kept == [""], outcome.kept
    assert call(text, 1).started


@pytest.mark.parametrize(
    "value", ["iter(())", "(i for i in ())", "{}.keys()", "None", "len", "run", "[1]", "range(2)"]
)
def test_answers_about_pythons_own_classes_are_kept(value):
    text = (
        "import collections.abc\n"
        f"def run(x): return x * (2 if isinstance({value}, collections.abc.Sequence) else 3)\n"
    )
    outcome = call(text, 1)
    assert outcome.right and outcome.kept == [""], outcome.kept
    assert call(text, 1).started


@pytest.mark.parametrize("asked", ["sorted({'a', 'b'})", "{3, 1, 2}", "{'a', 'b'} & {'b'}"])
def test_sets_whose_order_says_nothing_are_kept(asked):
    outcome = call(f"def run(x): return x * len([*{asked}])\n", 1)
    assert outcome.right and outcome.kept == [""]


def test_pairs_are_no_doubles():
    assert len({**IDENTITIES, **BREAKS, **OTHERS}) > 350
    assert len(set(start_pairs.generated().values())) == len(start_pairs.generated())
