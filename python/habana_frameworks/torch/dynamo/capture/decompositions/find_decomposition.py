"""Finds how to compute an op for which the compile server has no rule: by PyTorch's decomposition
of an ATen op, by the definition of an op of this package (ops/), or by the kernel for hpu of an op
of the user's (docs/custom_kernels.md). The report names where it was needed. Calls with a rule are
taken apart in the server (passes/decompose).

A decomposition is used if it ends in ops that the server knows (recorder.py); any other op stays as
it is and runs eagerly.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ....ops.definition import computation_of
from ....torch_compat import features
from ....torch_compat.ops import OpOverload, compiled_kernel
from ...fingerprints.function_text import is_foreign
from .aten_rules import ATEN_RULES

# Namespaces of PyTorch for whose operators this package has kernels on hpu.
OWN_KERNELS = frozenset({"c10d", "_c10d_functional"})


@functools.cache
def find_decomposition(op: OpOverload) -> Callable[..., Any] | None:
    """The function that computes `op` by other ops; None if the server takes `op` itself, or if
    there is no such function."""
    if str(op) in ATEN_RULES:
        return None
    if op.namespace == "hpu":
        return computation_of(op)
    if op.namespace in OWN_KERNELS:
        return None
    if op.namespace != "aten":
        # A library of the user's: its kernel says which kernels of the device it calls.
        return compiled_kernel(op, "HPU")
    if op._can_decompose():
        decompose: Callable[..., Any] = op.decompose
        return decompose
    # Graphs of known ops never need it.
    table = features.load(features.DECOMPOSITIONS, "decomposition_table")
    if table is None:
        return None
    found: Callable[..., Any] | None = table.decomposition_table.get(op)
    # The key of a graph tells nothing of what somebody else put into the table.
    return None if isinstance(found, types.FunctionType) and is_foreign(found) else found
