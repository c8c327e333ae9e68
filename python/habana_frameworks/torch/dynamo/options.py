"""Options of one torch.compile call: compile_backend.config, overridden by `options={...}`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

import torch

from .option_table import OPTIONS, Option

_TRUE = frozenset({"on", "1", "yes", "true", "y", "t"})
_FALSE = frozenset({"off", "0", "no", "false", "n", "f"})


class OptionError(ValueError):
    """A wrong option name or value; the text names it and what is allowed."""


def parse_bool(text: str, what: str) -> bool:
    """on/1/yes/true/y/t or off/0/no/false/n/f, in any letter case."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise OptionError(f"{what}={text!r}: expected one of on/1/yes/true/y/t or off/0/no/false/n/f")


def _parse(option: Option, value: Any, what: str) -> bool | int | float | str:
    if option.kind is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        return parse_bool(str(value), what)
    if option.kind is str:
        text = str(value)
        if option.values and text not in option.values:
            raise OptionError(f"{what}={text!r}: expected one of {', '.join(option.values)}")
        return text
    try:
        number: int | float = option.kind(value)
    except (TypeError, ValueError):
        raise OptionError(f"{what}={value!r}: expected a {option.kind.__name__}") from None
    if not number >= 0:
        raise OptionError(f"{what}={value!r}: expected a number of at least 0")
    return number


def from_environment() -> dict[str, bool | int | float | str]:
    """The environment's values, defaults for the rest. OptionError names a wrong variable."""
    values: dict[str, bool | int | float | str] = {}
    for option in OPTIONS:
        text = os.environ.get(option.env)
        values[option.name] = option.default if text is None else _parse(option, text, option.env)
    return values


def resolve(options: Mapping[str, Any] | None) -> dict[str, bool | int | float | str]:
    """All options: `options`, else compile_backend.config; PyTorch's modes win. OptionError names a
    wrong key or value."""
    from .compile_backend import config

    values = {
        option.name: _parse(option, getattr(config, option.name), f"config.{option.name}")
        for option in OPTIONS
    }
    by_name = {option.name: option for option in OPTIONS}
    for name, value in (options or {}).items():
        option = by_name.get(name)
        if option is None:
            near = difflib.get_close_matches(str(name), by_name, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise OptionError(
                f"hpu_backend has no option {name!r}{hint} Options: {', '.join(sorted(by_name))}"
            )
        values[name] = _parse(option, value, f"option {name}")
    for option in OPTIONS:
        if option.torch_mode and getattr(torch, option.torch_mode)():
            values[option.name] = True
    return values


def without_effect(values: Mapping[str, Any]) -> list[str]:
    """A sentence for each option whose value differs from the default and changes nothing."""
    return [
        f"option {option.name}={values[option.name]} has no effect: {option.effect}"
        for option in OPTIONS
        if option.effect != "active" and values[option.name] != option.default
    ]


def effect(name: str) -> str:
    """Why other values of an option change nothing; "active" if they do."""
    return next(option.effect for option in OPTIONS if option.name == name)


def key_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Those that enter the key and are sent to the server, as the text C++'s SetOption takes."""
    return {option.name: _wire_text(values[option.name]) for option in OPTIONS if option.key}


def _wire_text(value: bool | int | float | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
