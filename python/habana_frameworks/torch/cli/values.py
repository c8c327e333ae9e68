"""The values of command-line arguments; argparse says of a wrong one what is right."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

_SIZE_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_TIME_UNITS = {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86400}
# The protocol's numbers have 32 bits for counts and 64 for bytes and seconds.
_MOST_COUNTED = (1 << 32) - 1
_MOST_MEASURED = (1 << 63) - 1


def _number_with_unit(text: str, units: dict[str, int], example: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    known = {name.lower(): factor for name, factor in units.items()}
    if found is None or found[2].lower().replace("ib", "b") not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is not like {example}")
    number = int(float(found[1]) * known[found[2].lower().replace("ib", "b")])
    if number > _MOST_MEASURED:
        raise argparse.ArgumentTypeError(f"{text!r} is more than 2^63 - 1")
    return number


def parse_size(text: str) -> int:
    """A number of bytes; units are powers of 1024, as in the server's --max-size."""
    return _number_with_unit(text, _SIZE_UNITS, "500MB or 10GB")


def parse_time(text: str) -> int:
    """A number of seconds."""
    return _number_with_unit(text, _TIME_UNITS, "12h or 30d")


def parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_COUNTED:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a whole number from 0 to {_MOST_COUNTED}"
        )
    return int(text)


def parse_positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number above 0")
    return int(text)


# Dates have four digits for the year.
_MOST_DAYS = 365 * 1000


def parse_days(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_DAYS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a whole number of days from 0 to {_MOST_DAYS}"
        )
    return int(text)


def parse_seconds(text: str) -> float:
    """A time to wait: at most a day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds above 0, at most 86400")
    return seconds


def parse_word(text: str) -> str:
    """A word of a line in the server's callers' file."""
    if text.split() != [text] or text.startswith("#"):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected a word without spaces that does not begin with #"
        )
    return text


def parse_path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("expected a path, and it is empty")
    return Path(text)
