"""Descriptions of values that hold in any process: whatever may behave differently is described
differently."""

from __future__ import annotations

import builtins
import enum
import itertools
import types

import pytest
import torch
import torch._dynamo

from habana_frameworks.torch.dynamo.fingerprints import code_text
from habana_frameworks.torch.dynamo.fingerprints.function_text import (
    Uncacheable,
    code_lines,
    function_text,
)
from habana_frameworks.torch.dynamo.start.code_fingerprint import WorldRecorder, difference
from habana_frameworks.torch.dynamo.start.describe import Describer, Refused


def sample(a, b=1, *, c=2):
    def inner():
        return a

    try:
        return [inner() + b for _ in range(c)]
    except (KeyError, ValueError):
        return "text", 2.5, (1, 2), frozenset({3})


def text_of(code):
    return "\n".join(code_lines(code))


def other(value):
    """Another value of the same kind."""
    if isinstance(value, int):
        return value + 1
    if isinstance(value, bytes):
        return value + b"\x00\x00"
    if isinstance(value, str):
        return value + "_other"
    assert isinstance(value, tuple)
    return (*value, "other")


# Other attributes follow from these, which alone cannot be replaced in valid code.
TOGETHER = {
    "co_argcount": {"co_argcount": 1, "co_kwonlyargcount": 2},
    "co_posonlyargcount": {"co_posonlyargcount": 1},
    "co_kwonlyargcount": {"co_argcount": 1, "co_kwonlyargcount": 2},
    "co_nlocals": {"co_nlocals": 4, "co_varnames": ("a", "b", "c", "d")},
    "co_varnames": {"co_varnames": ("a", "b", "d")},
    "co_flags": {"co_flags": sample.__code__.co_flags ^ 0x20},
}
PLACES = {"co_filename", "co_firstlineno", "co_linetable", "co_lnotab"}


def attributes():
    """The attributes that hold a value, according to Python's own list of a code object's
    attributes."""
    code = sample.__code__
    return [n for n in dir(code) if n.startswith("co_") and not callable(getattr(code, n))]


@pytest.mark.parametrize("name", [n for n in attributes() if n != "co_lnotab"])
def test_each_attribute_of_code_is_told_but_for_where_it_lies(name):
    code = sample.__code__
    changed = code.replace(**TOGETHER.get(name, {name: other(getattr(code, name))}))
    assert (text_of(changed) == text_of(code)) is (name in PLACES)


def test_an_attribute_of_a_newer_python_refuses(monkeypatch):
    assert not code_text._UNKNOWN_OF_CODE
    monkeypatch.setattr(code_text, "_UNKNOWN_OF_CODE", ["co_tomorrow"])
    with pytest.raises(Uncacheable, match="code objects of this Python have co_tomorrow, whose"):
        text_of(sample.__code__)
    with pytest.raises(Refused, match="co_tomorrow"):
        Describer().loosely(sample)
    with pytest.raises(Uncacheable, match="co_tomorrow"):
        function_text(sample)


def test_a_range_of_a_try_is_told():
    def inside(x):
        try:
            x.a()
            x.b()
        except ValueError:
            return 1

    def before(x):
        x.a()
        try:
            x.b()
        except ValueError:
            return 1

    tables = [f.__code__.co_exceptiontable for f in (inside, before)]
    assert tables[0] != tables[1]
    edited = inside.__code__.replace(co_exceptiontable=tables[1])
    assert text_of(edited) != text_of(inside.__code__)


NAN = float("nan")
CONSTANTS = [
    *(None, True, False, 0, 1, 0.0, -0.0, 1.0, NAN, float("inf"), "1", "", b"1", b"", ..., 1j),
    *(complex(0.0, -0.0), complex(-0.0, 0.0), complex(0.0, 0.0), (), (1,), (True,), (1.0,)),
    *((1, 2), (2, 1), ((1, 2),), ((1,), 2), ("1", "2"), ("1, 2",), frozenset(), frozenset({1})),
    *(frozenset({True}), frozenset({1.0}), frozenset({"1"}), frozenset({(1, 2)})),
    *(frozenset({1, 2}), frozenset({frozenset({1})}), (frozenset({1}),), (None,), (0.0,), (-0.0,)),
    *(slice(1, 2), slice(1, 2, None), slice(1, 2, 1), slice(True, 2), "a\nb", "a\\nb", ("a", "\n")),
]


def test_constants_are_told_by_value():
    """The values of each pair differ in something that code can see."""
    texts = [text_of(sample.__code__.replace(co_consts=(c,))) for c in CONSTANTS]
    same = [
        (CONSTANTS[one], CONSTANTS[two])
        for one, two in itertools.combinations(range(len(CONSTANTS)), 2)
        if texts[one] == texts[two]
    ]
    assert same == [(slice(1, 2), slice(1, 2, None))]


def test_nested_constants_do_not_run_together():
    ways = [((1, 2), 3), (1, (2, 3)), (1, 2, 3), ((1,), (2, 3)), (((1, 2),), 3)]
    texts = {text_of(sample.__code__.replace(co_consts=way)) for way in ways}
    assert len(texts) == len(ways)


@pytest.mark.parametrize("constant", [[1], {1: 2}, object(), bytearray(b"1"), range(3), sample])
def test_a_constant_that_nobody_knows_refuses(constant):
    with pytest.raises(Uncacheable, match=f"constant of type {type(constant).__name__}"):
        text_of(sample.__code__.replace(co_consts=(constant,)))


MEMBERS = {
    "int": lambda value: enum.IntEnum("E", {"A": value}),
    "text": lambda value: enum.StrEnum("E", {"A": str(value)}),
    "mixed text": lambda value: enum.Enum("E", {"A": str(value)}, type=str),
    "mixed float": lambda value: enum.Enum("E", {"A": value / 2}, type=float),
    "flag": lambda value: enum.Flag("E", {"A": value}),
    "int flag": lambda value: enum.IntFlag("E", {"A": value}),
    "plain": lambda value: enum.Enum("E", {"A": value}),
    "tuple": lambda value: enum.Enum("E", {"A": (1, value)}),
    "list": lambda value: enum.Enum("E", {"A": [1, value]}),
}


@pytest.mark.parametrize("kind", MEMBERS)
def test_members_of_enums_are_told_with_their_values(kind):
    one, same, another = (MEMBERS[kind](value) for value in (1, 1, 2))
    texts = [Describer().value(made.A) for made in (one, same, another)]
    assert texts[0] == texts[1] != texts[2]
    classes = [Describer().identity(made) for made in (one, same, another)]
    assert classes[0] == classes[1] != classes[2]


def make(**changes):
    """A class that differs from make() in one attribute."""
    attributes = {"__module__": "m", "__qualname__": "C", "a": 1, "f": lambda self: 1}
    return type("C", changes.pop("bases", (object,)), attributes | changes)


class Meta(type):
    gain = 1


class OtherMeta(type):
    gain = 2


OtherMeta.__qualname__ = Meta.__qualname__


def documented(self):
    return 1


def twin(**attributes):
    """A function that does the same, with other attributes."""
    made = types.FunctionType(documented.__code__, globals(), "f")
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


CLASSES = {
    "attribute": ({"a": 1}, {"a": 2}),
    "method": ({"f": lambda self: 1}, {"f": lambda self: 2}),
    "default that is a dictionary": (
        {"f": twin(__defaults__=({"a": 1},))},
        {"f": twin(__defaults__=({"a": 2},))},
    ),
    "keyword default": (
        {"f": twin(__kwdefaults__={"k": [1]})},
        {"f": twin(__kwdefaults__={"k": [2]})},
    ),
    "annotation": (
        {"f": twin(__annotations__={"self": int})},
        {"f": twin(__annotations__={"self": str})},
    ),
    "name of a method": ({"f": twin(__name__="f")}, {"f": twin(__name__="g")}),
    "text of a method": ({"f": twin(__doc__="a")}, {"f": twin(__doc__="b")}),
    "attribute of a method": ({"f": twin(gain=1)}, {"f": twin(gain=2)}),
    "property": ({"p": property(lambda self: 1)}, {"p": property(lambda self: 2)}),
    "setter": (
        {"p": property(None, lambda self, v: 1)},
        {"p": property(None, lambda self, v: 2)},
    ),
    "static for class method": ({"f": staticmethod(twin())}, {"f": classmethod(twin())}),
    "base": ({"bases": (dict,)}, {"bases": (list,)}),
    "slots": ({"__slots__": ("x",)}, {"__slots__": ("y",)}),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_told_by_all_that_they_define(name):
    one, other = CLASSES[name]
    texts = [Describer().identity(make(**changes)) for changes in (one, one, other)]
    assert texts[0] == texts[1] != texts[2]


def test_a_class_is_told_without_what_dynamo_keeps_of_its_methods():
    """Dynamo keeps addresses of this process in attributes of the methods."""
    ones = [make(f=torch._dynamo.disable(documented)) for _ in range(2)]
    assert ones[0].f._torchdynamo_wrapper_id != ones[1].f._torchdynamo_wrapper_id
    assert Describer().identity(ones[0]) == Describer().identity(ones[1])


def test_a_function_is_told_without_what_classes_it_is_annotated_with_count():
    """torch numbers handles of hooks by an attribute of their class."""
    kind = make()
    text = Describer().identity(twin(__annotations__={"return": kind}))
    kind.a = 2
    assert Describer().identity(twin(__annotations__={"return": kind})) == text


def test_a_class_is_told_with_its_metaclass():
    made = [kind("C", (), {"__module__": "m"}) for kind in (Meta, Meta, OtherMeta)]
    texts = [Describer().identity(kind) for kind in made]
    assert texts[0] == texts[1] != texts[2]


def reads_builtins():
    return len((start_describe_value, max))  # noqa: F821


def test_builtins_that_code_names_are_in_its_world(monkeypatch):
    monkeypatch.setattr(builtins, "start_describe_value", 2, raising=False)
    recorder = WorldRecorder(Describer())
    recorder.add_codes([reads_builtins.__code__], [])
    assert not recorder.missing and difference(recorder.places, Describer()) == ""
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "start_describe_value", 3)
        told = difference(recorder.places, Describer())
        assert told == "builtins.start_describe_value is not what it was"
    for name in ("len", "max"):
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, reads_builtins)
            told = difference(recorder.places, Describer())
            assert told == f"{__name__} has a name {name}, which it had not"
