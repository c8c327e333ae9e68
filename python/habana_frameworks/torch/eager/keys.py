"""The front-end key of an eager call (docs/cache_key.md): another process that makes a call of the
same signature finds its program by it and captures nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch

from ..dynamo.fingerprints.function_text import function_text
from ..dynamo.keys.code_digest import code_digest
from ..dynamo.keys.graph_key import Factors, ambient_factors
from ..dynamo.programs.front_end_keys import front_end_key
from ..dynamo.programs.service import FrontEndKey
from ..dynamo.records.records import GraphRecord
from ..dynamo.settings.options import key_options
from ..dynamo.settings.resolve import resolve

# The folders whose modules make captured graphs of calls, beside graph_key.GRAPH_MAKERS.
_MAKERS = ("lazy", "eager")
_PYTORCHS = "aten"


def call_key(name: str, overload: str, signature: bytes, record: GraphRecord) -> FrontEndKey | None:
    """The key of a call of operator `name` ("aten::add"), or None where the operator's kernels
    cannot be described. Raises NoProgram if there is no server.

    signature: the words of CallSignature (backend/torch/record/call_signature.h).
    """

    def factors() -> Factors:
        return [
            ("call", f"{name}.{overload or 'default'}"),
            ("signature", hashlib.sha256(signature).hexdigest()),
            *maker_factors([name]),
        ]

    return front_end_key(factors, key_options(resolve(None)), f"eager call of {name}", record)


def maker_factors(names: Iterable[str]) -> Factors:
    """The factors of everything that makes a graph of calls of these operators, beside the calls.
    Raises Uncacheable."""
    operators = sorted(_operators(names))
    return [
        ("operators", "\n".join(operators) if operators else "PyTorch's"),
        ("front end", code_digest(*_MAKERS)),
        *ambient_factors(),
    ]


def _operators(names: Iterable[str]) -> set[str]:
    """Describes the operators that are not PyTorch's. Raises Uncacheable."""
    texts = set()
    for name in set(names):
        namespace, _, short = name.partition("::")
        if namespace != _PYTORCHS:
            texts.add(function_text(getattr(getattr(torch.ops, namespace), short)))
    return texts
