"""Pairs of modules that differ in one thing, as text: "== name", then Python with <<one||other>>.

A module has `run(x, ...)`, which is compiled, or `function`; `make()`, if there is one, gives the
arguments after x. The first process is the module with what stands on the left, the second with
what stands on the right. Both are made in one process, which forgets in between all but what is
stored.
"""

from __future__ import annotations

import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.external_utils

FOLDER = Path(__file__).parent


def texts(group: str) -> dict[str, str]:
    """By name: the pairs of a file of this folder."""
    parts = re.split(r"^== (.*)\n", (FOLDER / f"{group}.txt").read_text(), flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert not parts[0] and len(found) == len(parts) // 2, "two pairs have one name"
    return found


def _module(text: str, side: int) -> types.ModuleType:
    """side: 1 = the left one. The same name and file for both sides, as for an edited file."""
    module = types.ModuleType("start_pair")
    module.__file__ = str(FOLDER / "start_pair.py")
    sys.modules["start_pair"] = module
    # Dynamo's name for the module in frames of torch.nn would lead to the one before.
    vars(torch._dynamo.external_utils).pop("__import_start_pair", None)
    source = re.sub(r"<<(.*?)\|\|(.*?)>>", lambda m: m.group(side), text, flags=re.DOTALL)
    exec(compile(source, module.__file__, "exec", dont_inherit=True), vars(module))
    return module


@dataclass
class Outcome:
    right: bool
    answer: torch.Tensor
    graphs: int
    reasons: list[str]  # of the frames: why it was traced, "" = it was not
    kept: list[str]  # why no start was kept

    @property
    def started(self) -> bool:
        return bool(self.reasons) and not any(self.reasons)


def call(text: str, side: int, *, from_starts: bool = True) -> Outcome:
    """As a process of its own would, but for its addresses."""
    from habana_frameworks.torch.dynamo import report
    from habana_frameworks.torch.dynamo.start import journal

    torch._dynamo.reset()
    journal.reset()
    before = len(report().graphs)
    module = _module(text, side)
    function = vars(module).get("run") or module.function
    arguments = module.make() if hasattr(module, "make") else ()
    x = torch.linspace(1, 2, 8).reshape(2, 4).to("hpu")
    options = {"start_without_tracing": from_starts}
    compiled = torch.compile(function, backend="hpu_backend", options=options)
    with torch.no_grad():
        got = compiled(x, *arguments).cpu()
        # Eagerly with values of its own: a compiled function may have changed them.
        want = function(x, *(module.make() if hasattr(module, "make") else ())).cpu()
    outcomes = journal.outcomes()
    return Outcome(
        got.shape == want.shape and torch.allclose(got, want),
        want,
        len(report().graphs) - before,
        [outcome.reason for outcome in outcomes],
        [outcome.not_kept for outcome in outcomes],
    )


# ---- generated -----------------------------------------------------------------------------------

# By name: the body of a class C, and what asks an object o of it.
_BODIES: dict[str, tuple[str, str]] = {
    "__eq__": ("def __eq__(self, o): return <<True||False>>", "(2 if o == 1 else 3)"),
    "__ne__": ("def __ne__(self, o): return <<True||False>>", "(2 if o != 1 else 3)"),
    "__lt__": ("def __lt__(self, o): return <<True||False>>", "(2 if o < 1 else 3)"),
    "__bool__": ("def __bool__(self): return <<True||False>>", "(2 if o else 3)"),
    "__len__": ("def __len__(self): return <<4||5>>", "len(o)"),
    "__contains__": ("def __contains__(self, v): return <<True||False>>", "(2 if 1 in o else 3)"),
    "__iter__": ("def __iter__(self): return iter((1, <<4||5>>))", "sum(o)"),
    "__getitem__": ("def __getitem__(self, i): return <<4||5>>", "o[1]"),
    "__call__": ("def __call__(self): return <<4||5>>", "o()"),
    "__mul__": ("def __mul__(self, i): return <<4||5>>", "(o * 1)"),
    "__rmul__": ("def __rmul__(self, i): return <<4||5>>", "(1 * o)"),
    "__add__": ("def __add__(self, i): return <<4||5>>", "(o + 1)"),
    "__matmul__": ("def __matmul__(self, i): return <<4||5>>", "(o @ 1)"),
    "__neg__": ("def __neg__(self): return <<4||5>>", "(-o)"),
    "__index__": ("def __index__(self): return <<1||2>>", "[5, 6, 7][o]"),
    "__int__": ("def __int__(self): return <<1||2>>", "int(o)"),
    "__float__": ("def __float__(self): return <<1.0||2.0>>", "float(o)"),
    "__str__": ("def __str__(self): return '<<a||bb>>'", "len(str(o))"),
    "__repr__": ("def __repr__(self): return '<<a||bb>>'", "len(repr(o))"),
    "__enter__": (
        "def __enter__(self): return <<4||5>>\n    def __exit__(self, *a): return None",
        "entered(o)",
    ),
    "__getattr__": ("def __getattr__(self, n): return <<4||5>>", "o.abc"),
    "__dir__": ("def __dir__(self): return ['<<a||a', 'b>>']", "len(dir(o))"),
    "__doc__": ("'<<a||bb>>'", "len(type(o).__doc__)"),
    "__qualname__": ("pass\nC.__qualname__ = '<<C||CC>>'", "len(type(o).__qualname__)"),
    "__name__": ("pass\nC.__name__ = '<<C||CC>>'", "len(type(o).__name__)"),
    "__match_args__": ("__match_args__ = ('<<a||b>>',)\n    a, b = 1, 2", "matched(o)"),
    "__annotations__": ("a: int<<||; b: int>>", "(1 + len(type(o).__annotations__))"),
    "private name": ("def __f(self): return <<4||5>>\n    def g(self): return self.__f()", "o.g()"),
    "generator": ("def g(self):\n        yield 1\n        yield <<4||5>>", "sum(o.g())"),
    "nested class": ("class N:\n        v = <<4||5>>", "o.N.v"),
    "object of a nested class": ("class N:\n        v = <<4||5>>", "type(o).N().v"),
    "property": ("@property\n    def v(self): return <<4||5>>", "o.v"),
    "class method": ("@classmethod\n    def g(cls): return <<4||5>>", "o.g()"),
    "static method": ("@staticmethod\n    def g(): return <<4||5>>", "o.g()"),
    "method by name": ("def g(self): return <<4||5>>", "getattr(o, 'g')()"),
    "slots": ("__slots__ = ('v',)\n    def __init__(self): self.v = <<4||5>>", "o.v"),
    "attribute of text": ("v = '<<a||bb>>'", "len(o.v)"),
    "tuple": ("v = (1, <<4||5>>)", "o.v[1]"),
    "list": ("v = [1, <<4||5>>]", "o.v[1]"),
    "dictionary": ("v = {'a': <<4||5>>}", "o.v['a']"),
    "set": ("v = {1, <<4||5>>}", "sum(o.v)"),
    "frozenset of bool": ("v = frozenset({<<1||True>>})", "(2 if type([*o.v][0]) is bool else 3)"),
    "native function": ("import math\n    g = staticmethod(math.<<floor||ceil>>)", "o.g(1.5)"),
}
_BODY = """
class C:
    {body}
def entered(o):
    with o as v: return v
def matched(o):
    match o:
        case C(1): return 5
    return 6
"""

# By name: a default (or cell) and what asks it.
_KEPT: dict[str, tuple[str, str]] = {
    "dictionary": ("{'a': <<2||3>>}", "k['a']"),
    "list": ("[<<2||3>>]", "k[0]"),
    "nested": ("[{'a': [<<2||3>>]}]", "k[0]['a'][0]"),
    "object": ("O(<<2||3>>)", "k.v"),
    "object with slots": ("Slots(<<2||3>>)", "k.v"),
    "set": ("{<<2||3>>}", "sum(k)"),
    "tuple of objects": ("(O(<<2||3>>),)", "k[0].v"),
    "function with an attribute": ("attributed", "k.gain"),
    "partial": ("functools.partial(same, <<2||3>>)", "k()"),
    "bound method": ("O(<<2||3>>).get", "k()"),
    "deque": ("collections.deque([<<2||3>>])", "k[0]"),
    "range": ("range(<<2||3>>)", "len(k)"),
    "class": ("Class<<A||B>>", "k.v"),
    "int enum": ("Kind.<<A||B>>", "(k + 1)"),
}
_KEEPERS = """
import collections, enum, functools
def attributed(): pass
attributed.gain = <<2||3>>
def same(v): return v
class O:
    def __init__(self, v): self.v = v
    def get(self): return self.v
class Slots:
    __slots__ = ("v",)
    def __init__(self, v): self.v = v
class ClassA: v = 2
class ClassB: v = 3
class Kind(enum.IntEnum):
    A = 2
    B = 3
"""
_HOW = {
    "default": "class C:\n    def g(self, x, k={value}): return x * {use}",
    "keyword default": "class C:\n    def g(self, x, *, k={value}): return x * {use}",
    "default of a class method": (
        "class C:\n    @classmethod\n    def g(cls, x, k={value}): return x * {use}"
    ),
    "cell": (
        "def outer(k):\n    class C:\n        def g(self, x): return x * {use}\n"
        "    return C\nC = outer({value})"
    ),
    "cell of a decorator": (
        "def decorate(k):\n    def wrap(f):\n        def g(self, x): return f(self, x) * {use}\n"
        "        return g\n    return wrap\n"
        "class C:\n    @decorate({value})\n    def g(self, x): return x + 1"
    ),
}


def generated() -> dict[str, str]:
    """Each kind of class attribute, of an object that is there and of one that traced code makes;
    each kind of value that a method keeps."""
    found = {}
    for name, (body, use) in _BODIES.items():
        text = _BODY.format(body=body)
        found[f"{name} of an argument"] = f"{text}def run(x, o=C()): return x * {use}\n"
        found[f"{name} of a new object"] = f"{text}def run(x):\n    o = C()\n    return x * {use}\n"
    for kept, (value, use) in _KEPT.items():
        for how, text in _HOW.items():
            made = text.format(value=value, use=use)
            found[f"{kept} as {how}"] = f"{_KEEPERS}{made}\ndef run(x): return C().g(x)\n"
    return found


def all_pairs(*groups: str) -> dict[str, Any]:
    return {f"{group}: {name}": text for group in groups for name, text in texts(group).items()}
