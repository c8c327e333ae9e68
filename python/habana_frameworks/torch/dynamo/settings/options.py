"""Values of options: how they are read, which of them are part of the key, which have no effect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...internal.switches import parse_bool
from .option_table import OPTIONS, Option


class OptionError(ValueError):
    """A wrong option name or value; the text names it and what is allowed."""


def parse(option: Option, value: Any, what: str) -> bool | int | float | str:
    if option.kind is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        try:
            return parse_bool(str(value), what)
        except ValueError as error:
            raise OptionError(str(error)) from None
    if option.kind is str:
        text = str(value)
        if option.values and text not in option.values:
            raise OptionError(f"{what}={text!r}: expected one of {', '.join(option.values)}")
        return text
    try:
        number: int | float = option.kind(value)
    except (TypeError, ValueError):
        expected = "a whole number" if option.kind is int else "a number"
        raise OptionError(f"{what}={value!r}: expected {expected}") from None
    if not number >= 0:
        raise OptionError(f"{what}={value!r}: expected a number of at least 0")
    return number


def from_environment() -> dict[str, bool | int | float | str]:
    """The environment's values, and defaults for the rest. An OptionError names a wrong
    variable."""
    values: dict[str, bool | int | float | str] = {}
    for option in OPTIONS:
        text = os.environ.get(option.env)
        values[option.name] = option.default if text is None else parse(option, text, option.env)
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
    """The options that are part of the key and are sent to the server, as the text that C++'s
    SetOption takes."""
    return {option.name: _wire_text(values[option.name]) for option in OPTIONS if option.key}


def _wire_text(value: bool | int | float | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
