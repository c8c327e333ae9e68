"""Typed access to the flags of flag_table.py: get_<flag>(), set_<flag>(value), env_setting.

The functions have the flags' names in lower case: get_pt_hpu_lazy_mode(). A value that is set here
holds for the process; before that the environment's value counts, and is read at every call. Not
every value has an effect: setting one that has none logs one warning.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .flag_table import FLAGS, VARIABLES, Flag, Value
from .notices import without_effect
from .switches import parse_bool

_BY_NAME = {flag.name: flag for flag in FLAGS}
_set_values: dict[str, Value] = {}
# These functions are told when a flag is set, by the flag's name.
_listeners: dict[str, Callable[[Value], object]] = {}


def _parse(flag: Flag, value: object, what: str) -> Value:
    """The value of a flag. A ValueError names `what`."""
    if isinstance(flag.default, bool):
        return parse_bool(str(value), what)
    if isinstance(flag.default, str):
        return str(value)
    try:
        return value if isinstance(value, int) else int(str(value), 0)
    except ValueError:
        raise ValueError(f"{what}={value!r}: expected a number") from None


def _flag(name: str) -> Flag:
    """A flag by its name in either case."""
    flag = _BY_NAME.get(name.upper())
    if flag is None:
        raise AttributeError(f"no flag {name!r}; there are: {', '.join(sorted(_BY_NAME))}")
    return flag


def get(name: str) -> Value:
    """The flag's value. Raises ValueError if the environment's text is not a valid value."""
    flag = _flag(name)
    if flag.name in _set_values:
        return _set_values[flag.name]
    text = os.environ.get(flag.name, "").strip()
    return _parse(flag, text, flag.name) if text else flag.default


def default(name: str) -> Value:
    return _flag(name).default


def assign(name: str, value: object) -> None:
    """Sets a flag for this process, and warns once if the value changes nothing."""
    flag = _flag(name)
    parsed = _parse(flag, value, flag.name)
    _set_values[flag.name] = parsed
    _notify(flag.name)
    _tell(flag, parsed)


def listen(name: str, listener: Callable[[Value], object]) -> None:
    """Tells `listener` the flag's value now and whenever it is set. Raises ValueError if the
    environment's text is not a valid value."""
    value = get(name)
    _listeners[_flag(name).name] = listener
    listener(value)


def _notify(name: str) -> None:
    if name in _listeners:
        _listeners[name](get(name))


def _tell(flag: Flag, value: Value) -> None:
    if flag.effect != "active" and value != flag.default:
        without_effect(f"{flag.name}={value}", flag.effect)


def tell_environment() -> None:
    """Logs one warning for each flag in the environment whose value changes nothing."""
    for flag in (*FLAGS, *VARIABLES):
        text = os.environ.get(flag.name, "").strip()
        if not text or flag.effect == "active":
            continue
        try:
            _tell(flag, _parse(flag, text, flag.name))
        except ValueError:  # a flag that changes nothing may have any text
            _tell(flag, text)


@contextmanager
def env_setting(var: str, val: Value) -> Iterator[None]:
    """`with env_setting("PT_COMPILE_ONLY_MODE", True):` sets a settable flag inside the block."""
    flag = _flag(var)
    _check_settable(flag)
    before = _set_values.get(flag.name)
    assign(flag.name, val)
    try:
        yield
    finally:
        if before is None:
            del _set_values[flag.name]
        else:
            _set_values[flag.name] = before
        _notify(flag.name)


def _check_settable(flag: Flag) -> None:
    if not flag.settable:
        names = ", ".join(f.name for f in FLAGS if f.settable)
        raise AttributeError(f"{flag.name} cannot be set while a program runs; can be: {names}")


def __getattr__(name: str) -> Callable[..., Value | None]:
    """Makes the functions get_<flag> and set_<flag>."""
    verb, _, rest = name.partition("_")
    if verb not in ("get", "set") or not rest:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    flag = _flag(rest)
    if verb == "get":
        return functools.partial(get, flag.name)
    _check_settable(flag)
    return functools.partial(assign, flag.name)


def __dir__() -> list[str]:
    getters = [f"get_{flag.name.lower()}" for flag in FLAGS]
    setters = [f"set_{flag.name.lower()}" for flag in FLAGS if flag.settable]
    return sorted([*globals(), *getters, *setters])
