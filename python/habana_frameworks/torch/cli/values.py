"""The values of command-line arguments; argparse says of a wrong one what is right."""

from __future__ import annotations

import argparse
import re

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
