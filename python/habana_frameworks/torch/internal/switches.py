"""The text of variables and options that are on or off."""

from __future__ import annotations

_TRUE = frozenset({"on", "1", "yes", "true", "y", "t"})
_FALSE = frozenset({"off", "0", "no", "false", "n", "f"})


def parse_bool(text: str, what: str) -> bool:
    """Reads on/1/yes/true/y/t or off/0/no/false/n/f, in any letter case. A ValueError names
    `what`."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(f"{what}={text!r}: expected one of on/1/yes/true/y/t or off/0/no/false/n/f")
