"""Functions, classes, globals and files that a program names."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import start_cases as cases
import torch
import torch.nn.functional as F
from start_helper_files import write_helpers
from start_setup import Setup

from .difference import DIFFERENCES, Difference, differs, set_attribute


def relu_times_gain(self: Any, x: torch.Tensor) -> torch.Tensor:
    return F.relu(x) * self.gain


def _no_finish(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x


def _other_scale(x: torch.Tensor, by: float = 1.5, *, more: float = 0.5) -> torch.Tensor:
    return x + by


def _twice_forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.forward(x) * 2


def _no_bias(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x @ self.weight.t()


def _sum_and_one(values: Any, /, start: Any = 0, sum: Any = builtins.sum) -> Any:
    return sum(values, start) + (1.0 if values == [1.0, 2.0] else 0.0)


def _doubled(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: original(*args, **kwargs) * 2


set_attribute("net", "patched method", cases.Net, "activation", relu_times_gain)
set_attribute("net", "patched method of a base class", cases.Base, "finish", _no_finish)
set_attribute("net", "patched property", cases.Net, "factor", property(lambda self: 2.0))
set_attribute("net", "patched function of torch", F, "gelu", F.silu)
set_attribute("net", "wrapped function of torch", F, "linear", _doubled(F.linear))
set_attribute("net", "patched forward of a class of torch", torch.nn.Linear, "forward", _no_bias)
set_attribute(
    "net", "patched call of a class of torch", torch.nn.Linear, "__call__", _twice_forward
)
set_attribute("net", "patched helper", cases, "scale", _other_scale)
set_attribute("net", "default", cases.scale, "__defaults__", (2.5,))
set_attribute("net", "keyword default", cases.scale, "__kwdefaults__", {"more": 0.75})
set_attribute("net", "global number", cases, "FACTOR", 5.0)
set_attribute("net", "class attribute", cases.Net, "gain", 4.0)
set_attribute(
    "broken", "patched method behind a break", cases.Broken, "activation", relu_times_gain
)
set_attribute("broken", "global number behind a break", cases, "FACTOR", 5.0)
set_attribute("broken", "patched function of torch behind a break", F, "gelu", F.silu)
set_attribute("train", "patched method in training", cases.Net, "activation", relu_times_gain)
set_attribute("functions", "global number", cases, "FACTOR", 5.0)
set_attribute("functions", "patched function", cases, "scale", _other_scale)
set_attribute("functions", "class attribute of a class", cases.Weights, "up", 7.0)
set_attribute("functions", "static method", cases.Weights, "mix", staticmethod(lambda x: x * 0.5))
set_attribute("functions", "global list", cases, "LADDER", [1.0, 2.0, 5.0])
set_attribute("functions", "longer global list", cases, "LADDER", [1.0, 2.0, 3.0, 4.0])
set_attribute("functions", "patched builtin", builtins, "sum", _sum_and_one)
set_attribute("closures", "another closure", cases, "CLOSURE", lambda: cases.make_closure(3.0))
set_attribute(
    "closures", "another tuple", cases, "CLOSURE", lambda: cases.make_closure(names=("a",))
)
set_attribute("texts", "patched function by text", F, "gelu", F.silu)
set_attribute("texts", "patched torch function by text", torch, "tanh", torch.sigmoid)
set_attribute("opaques", "what an opaque function calls", cases, "hidden_factor", lambda x: x * 3.0)
set_attribute("custom_ops", "what an op names", cases, "FACTOR", 5.0, hits=True)
set_attribute("disabled", "what an eager function names", cases, "FACTOR", 5.0, hits=True)


@differs("functions", "before")
def _value_in_a_global_dict() -> None:
    cases.TABLE["gain"] = 2.5


@differs("functions", "before")
def _key_that_was_missing() -> None:
    cases.TABLE["extra"] = 2.0


@differs("functions", "before")
def _item_of_a_global_list() -> None:
    cases.LADDER[1] = 2.5


@differs("closures", "after")
def _dict_in_a_closure(setup: Setup) -> None:
    index = setup.function.__code__.co_freevars.index("table")
    setup.function.__closure__[index].cell_contents["shift"] = 0.75


@differs("closures", "after")
def _default_of_a_closure(setup: Setup) -> None:
    setup.function.__defaults__ = (2.0,)


@differs("partials", "before")
def _keyword_of_a_partial() -> None:
    cases.PARTIAL.keywords["by"] = 0.75


@differs("partials", "before")
def _function_of_a_partial() -> None:
    cases.PARTIAL = functools.partial(_other_scale, by=2.5)


for _name, _file, _old, _new in (
    ("edited function", "inner.py", "x * 2.0", "x * 5.0"),
    ("edited caller", "outer.py", "* STEP", "+ STEP"),
    ("edited constant", "inner.py", "STEP = 4.0", "STEP = 6.0"),
    ("edited class", "inner.py", "part = 0.5", "part = 0.25"),
    ("edited method", "inner.py", "x * self.part", "x + self.part"),
    ("edited cached function", "inner.py", "n + 1.0", "n + 2.0"),
):
    DIFFERENCES[f"helpers: {_name}"] = Difference(
        "helpers",
        "before",
        lambda file=_file, old=_old, new=_new: write_helpers(file, old, new),
    )
DIFFERENCES["helpers: version of a package"] = Difference(
    "helpers", "before", lambda: write_helpers("__init__.py", "1.0", "1.1"), moves=False
)
DIFFERENCES["helpers: comment edited"] = Difference(
    "helpers", "before", lambda: write_helpers("inner.py", "STEP", "# Said.\nSTEP"), False, True
)
