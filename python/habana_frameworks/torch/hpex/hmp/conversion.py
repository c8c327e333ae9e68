"""hmp.convert and hmp.disable_casts."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch

from ...internal.notices import without_effect
from ...torch_compat.modes import get_current_function_mode_stack
from . import casts, functions, lists
from .casts import Rule

_log = logging.getLogger("habana_frameworks.torch")
_mode = casts.CastMode()
# Operators that Python calls by a name of their own and that PyTorch hands on under another one.
_OPERATORS = tuple(
    f"__{form}{name}__"
    for name in ("add", "sub", "mul", "truediv", "matmul")
    for form in ("", "r", "i")
    if form + name not in ("rsub", "rtruediv", "imatmul", "rmatmul")
)
_noted: list[str] = []


def convert(
    opt_level: str = "O1",
    bf16_file_path: str = "",
    fp32_file_path: str = "",
    isVerbose: bool = False,
) -> None:
    """Casts the inputs of PyTorch's functions from now on, in the thread that calls this.

    opt_level: "O1" takes the lists; "O2" puts products and convolutions in bf16 and everything else
    in f32. A file's names replace a built-in list. isVerbose: prints a line for each call of an op
    that has a rule. Another call replaces all settings. Raises ValueError for another opt_level,
    for a file that cannot be read, and for an op in both lists.
    """
    if opt_level not in ("O1", "O2"):
        raise ValueError(f'hmp.convert: opt_level={opt_level!r}; use "O1" or "O2"')
    if opt_level == "O1":
        rules = _rules_of_lists(
            lists.read("bf16_file_path", bf16_file_path) if bf16_file_path else lists.BF16,
            lists.read("fp32_file_path", fp32_file_path) if fp32_file_path else lists.FP32,
        )
    else:
        if bf16_file_path or fp32_file_path:
            without_effect("a list of ops in hmp.convert", "O2 has lists of its own")
        rules = _rules_of_o2()
    _install(rules)
    casts.enabled = True
    casts.verbose = isVerbose
    _note_operators(isVerbose)
    if _mode not in get_current_function_mode_stack():
        _mode.__enter__()


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """Nothing is cast in the block."""
    before = casts.enabled
    casts.enabled = False
    try:
        yield
    finally:
        casts.enabled = before


def _canonical(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lists.OPERATORS.get(name, name) for name in names))


def _rules_of_lists(bf16: tuple[str, ...], fp32: tuple[str, ...]) -> dict[str, Rule]:
    bf16, fp32 = _canonical(bf16), _canonical(fp32)
    both = sorted(set(bf16) & set(fp32))
    if both:
        raise ValueError(
            f"hmp.convert: {', '.join(both)} in the bf16 list and in the fp32 list; a name may be "
            "in one of them"
        )
    rules = dict.fromkeys(lists.OTHERS, Rule.FIRST)
    rules |= dict.fromkeys(lists.WIDEST, Rule.WIDEST)
    rules |= dict.fromkeys(fp32, Rule.FP32) | dict.fromkeys(bf16, Rule.BF16)
    if "linear" not in (*bf16, *fp32):
        # PyTorch's linear was made of addmm when the default lists were written.
        rules["linear"] = rules.get("addmm", Rule.FIRST)
    return rules


def _rules_of_o2() -> dict[str, Rule]:
    names = (*lists.OTHERS, *lists.WIDEST, *lists.FP32)
    return dict.fromkeys(names, Rule.FP32) | dict.fromkeys(lists.O2_BF16, Rule.BF16)


def _install(rules: dict[str, Rule]) -> None:
    by_function: dict[functions.Function, Rule] = {}
    alone: dict[functions.Function, bool] = {}
    unknown = []
    for name, rule in rules.items():
        found = functions.forms(name)
        writing = functions.in_place_forms(name)
        if not found and not writing:
            unknown.append(name)
        if name.endswith("_"):  # an in-place form has the rule of in-place forms in any list
            found, writing = [], found
        by_function |= dict.fromkeys(found, rule) | dict.fromkeys(writing, Rule.IN_PLACE)
        if name in lists.INPUT_ALONE:
            alone |= dict.fromkeys(found, True)
    for name in lists.WRITES:
        by_function |= dict.fromkeys(functions.in_place_forms(name), Rule.IN_PLACE)
    if unknown:
        _log.warning(
            "hmp.convert ignores names that neither torch.nn.functional nor torch nor torch.Tensor "
            "has: %s",
            ", ".join(unknown),
        )
    _replace(casts.RULES, by_function)
    _replace(casts.INPUT_ALONE, alone)
    _replace(casts.BODIES, functions.bodies(frozenset(by_function)))


def _replace(state: dict[functions.Function, Any], new: dict[functions.Function, Any]) -> None:
    state.clear()
    state.update(new)


def _note_operators(on: bool) -> None:
    """Lets lines show the operators that a program wrote, x * y as __mul__ and not as mul."""
    for name in _noted:
        delattr(torch.Tensor, name)
    _noted.clear()
    if not on:
        return
    for name in _OPERATORS:
        if name not in vars(torch.Tensor):
            setattr(torch.Tensor, name, casts.note_operator(getattr(torch.Tensor, name)))
            _noted.append(name)
