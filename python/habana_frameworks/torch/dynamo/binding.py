"""A loaded program as the function that Dynamo's bytecode calls, and what the report says of it."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable
from typing import Any

import torch

from .. import native
from . import structured_trace
from .records import GraphRecord
from .service import Loaded

# TORCH_LOGS and torch._logging.set_logs(modules=...) take the name of a package.
_log = logging.getLogger("habana_frameworks.torch.dynamo")
_warned: set[str] = set()

Compiled = Callable[..., Any]


def warn_once(text: str) -> None:
    """One warning per text and process."""
    if text not in _warned:
        _warned.add(text)
        _log.warning("%s", text)


def log_record(record: GraphRecord) -> None:
    """For TORCH_LOGS: at level info what became of a graph, at debug what its key is made of; and
    for TORCH_TRACE."""
    for line in record.lines():
        _log.info("%s", line)
    for name, value in record.factors:
        _log.debug("%s: key factor %s = %s", record.name, name, value)
    structured_trace.log_graph(record)


def describe_program(record: GraphRecord, loaded: Loaded, use_eager_fallback: bool) -> set[str]:
    """Names of the ops that run eagerly. AssertionError if there are some and they may not be."""
    program = loaded.program
    record.content_key = loaded.content_key
    record.content_factors = loaded.content_factors
    record.recipes = loaded.recipes
    record.program_bytes = loaded.bytes
    record.nodes = program.node_count
    record.eager_nodes = program.eager_node_count
    if record.eager_nodes:
        text = program.text()
        record.eager_steps = [
            line.strip() for line in text.splitlines() if line.strip().startswith("eager ")
        ]
        for step in record.eager_steps:
            warn_once(f"{record.name}: {step}")
        if not use_eager_fallback:
            raise AssertionError(
                f"option use_eager_fallback is off and {record.name} has eager ops: "
                + "; ".join(record.eager_steps)
            )
    # "eager %0 = aten::lgamma(%1)"
    return {op for step in record.eager_steps for op in re.findall(r"::(\w+)\(", step)}


def bind_program(
    program: Any,
    record: GraphRecord,
    attributes: tuple[torch.Tensor, ...],
    bind_forward: Callable[[], Compiled],
) -> Compiled:
    """The function that Dynamo calls: one C++ call. bind_forward: the graph as it runs eagerly, for
    inputs that share memory; asked for once, at the first such call."""
    aliased: type[Exception] = native.torch_module().AliasedInputs
    forward = functools.cache(bind_forward)

    def run_eagerly(*args: Any) -> Any:
        record.aliased_calls += 1
        warn_once(f"{record.name}: inputs share memory with one that is written; run eagerly")
        return forward()(*args)

    if attributes:

        def call_with_attributes(*args: Any) -> Any:
            try:
                return program(*args, *attributes)
            except aliased:
                return run_eagerly(*args)

        return call_with_attributes

    def call(*args: Any) -> Any:
        try:
            return program(*args)
        except aliased:
            return run_eagerly(*args)

    return call
