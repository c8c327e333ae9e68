"""The front-end key of a recording (docs/cache_key.md): another process that records the same calls
finds their program by it and captures nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ..dynamo.keys.graph_key import Factors
from ..dynamo.programs.front_end_keys import front_end_key
from ..dynamo.programs.service import FrontEndKey
from ..dynamo.records.records import GraphRecord
from ..dynamo.settings.options import key_options
from ..dynamo.settings.resolve import resolve
from ..eager.keys import maker_factors


def recording_key(
    calls: Sequence[Any],
    structure: bytes,
    forms: str,
    numbers: Sequence[float],
    varying: Sequence[int],
    in_place: bool,
    record: GraphRecord,
) -> FrontEndKey | None:
    """The key, or None where a call is of an operator whose kernels cannot be described.

    structure: the calls without floating-point numbers.
    forms: the inputs of the program.
    varying: the places of the numbers that are an input of the program; their values are not in the
    key.
    """

    def factors() -> Factors:
        fixed = list(numbers)
        for place in varying:
            fixed[place] = 0.0  # it has a value of its own in each call
        return [
            ("recording", hashlib.sha256(structure).hexdigest()),
            ("calls", str(len(calls))),
            ("inputs", hashlib.sha256(forms.encode()).hexdigest()),
            ("numbers", " ".join(map(repr, fixed)) or "none"),
            ("varying numbers", " ".join(map(str, varying)) or "none"),
            ("in place", str(in_place)),
            *maker_factors(name for name, *_ in calls),
        ]

    label = f"recording of {len(calls)} calls"
    return front_end_key(factors, key_options(resolve(None)), label, record)
