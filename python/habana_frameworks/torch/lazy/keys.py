"""The front-end key of a recording (docs/cache_key.md): another process that records the same calls
finds their program by it and captures nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from ..dynamo.fingerprints.function_text import function_text
from ..dynamo.keys.code_digest import code_digest
from ..dynamo.keys.graph_key import Factors, ambient_factors
from ..dynamo.programs.front_end_keys import front_end_key
from ..dynamo.programs.service import FrontEndKey
from ..dynamo.records.records import GraphRecord
from ..dynamo.settings.options import key_options
from ..dynamo.settings.resolve import resolve

# The folders whose modules make captured graphs of recordings, beside graph_key.GRAPH_MAKERS.
_MAKERS = ("lazy", "eager")
_PYTORCHS = "aten"


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
        operators = sorted(_operators(calls))
        return [
            ("recording", hashlib.sha256(structure).hexdigest()),
            ("calls", str(len(calls))),
            ("inputs", hashlib.sha256(forms.encode()).hexdigest()),
            ("numbers", " ".join(map(repr, fixed)) or "none"),
            ("varying numbers", " ".join(map(str, varying)) or "none"),
            ("in place", str(in_place)),
            ("operators", "\n".join(operators) if operators else "PyTorch's"),
            ("front end", code_digest(*_MAKERS)),
            *ambient_factors(),
        ]

    label = f"recording of {len(calls)} calls"
    return front_end_key(factors, key_options(resolve(None)), label, record)


def _operators(calls: Sequence[Any]) -> set[str]:
    """Describes the operators that are not PyTorch's. Raises Uncacheable."""
    texts = set()
    for name in {name for name, *_ in calls}:
        namespace, _, short = name.partition("::")
        if namespace != _PYTORCHS:
            texts.add(function_text(getattr(getattr(torch.ops, namespace), short)))
    return texts
