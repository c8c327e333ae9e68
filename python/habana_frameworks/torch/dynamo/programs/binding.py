"""A loaded program as the function that Dynamo's bytecode calls, and what the report says about
it."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from ... import native
from ...torch_compat import features
from ..records import structured_trace
from ..records.records import GraphRecord
from .differentiation import EagerGradients
from .service import Loaded

ALIASED = "inputs share memory with one that is written"
TANGENTS = "an input has a tangent of forward-mode differentiation"

# TORCH_LOGS and torch._logging.set_logs(modules=...) take the name of a package.
_log = logging.getLogger("habana_frameworks.torch.dynamo")
_warned: set[str] = set()
# backend/torch/programs/copy_to_host.h
_COPY_TO_HOST = " = hpu::copy_to_host("

Compiled = Callable[..., Any]


def warn_once(text: str, about: str = "") -> None:
    """Warns once per process about something: the text, unless `about` says more generally what."""
    about = about or text
    if about not in _warned:
        _warned.add(about)
        _log.warning("%s", text)


def _operator_and_reason(step: str) -> str:
    """ "eager aten::lgamma # no rule for this operator", without values and sizes."""
    call, _, reason = step.partition("#")
    return f"eager {call.rpartition('= ')[2].partition('(')[0]} # {reason.strip()}"


def log_record(record: GraphRecord) -> None:
    """Logs what became of a graph (level info) and the factors of its key (level debug) for
    TORCH_LOGS, and writes the record to TORCH_TRACE."""
    for line in record.lines():
        _log.info("%s", line)
    for name, value in record.factors:
        _log.debug("%s: key factor %s = %s", record.name, name, value)
    structured_trace.log_graph(record)


def describe_program(
    record: GraphRecord, loaded: Loaded, use_eager_fallback: bool, one_of_many: bool = False
) -> set[str]:
    """The names of the ops that run eagerly. Raises AssertionError if there are some and they are
    not allowed.

    one_of_many: there are so many such programs (recordings) that a warning about an operator and
    its reason is not repeated for another program. The report has all of them.
    """
    program = loaded.program
    record.content_key = loaded.content_key
    record.content_factors = loaded.content_factors
    record.recipes = loaded.recipes
    record.program_bytes = loaded.bytes
    record.nodes = program.node_count
    if program.eager_node_count:
        lines = [line.strip() for line in program.text().splitlines()]
        steps = [line for line in lines if line.startswith("eager ")]
        # The graph returns these on the CPU, so they are no fallbacks.
        record.eager_steps = [step for step in steps if _COPY_TO_HOST not in step]
        record.eager_nodes = program.eager_node_count - len(steps) + len(record.eager_steps)
        for step in record.eager_steps:
            warn_once(f"{record.name}: {step}", _operator_and_reason(step) if one_of_many else "")
        if record.eager_steps and not use_eager_fallback:
            raise AssertionError(
                f"option use_eager_fallback is off and {record.name} has eager ops: "
                + "; ".join(record.eager_steps)
            )
    # "eager %0 = aten::lgamma(%1)"
    return {op for step in record.eager_steps for op in re.findall(r"::(\w+)\(", step)}


def note_stored(record: GraphRecord) -> None:
    """The graph's program is one of torch.compiler's cache artifacts from now on."""
    if record.front_end_key and not features.is_off(features.ARTIFACTS):
        from . import cache_artifacts

        cache_artifacts.record(record.front_end_key)


def note_eager_call(record: GraphRecord, reason: str) -> None:
    """Counts a call that ran eagerly because its inputs were not ones that the program accepts."""
    record.eager_calls[reason] = record.eager_calls.get(reason, 0) + 1
    warn_once(f"{record.name}: {reason}; run eagerly")


def bind_program(
    program: Any,
    record: GraphRecord,
    attributes: tuple[torch.Tensor, ...],
    bind_forward: Callable[[], Compiled],
    graph: torch.fx.Graph | None = None,
) -> Compiled:
    """The function that Dynamo calls; each call of it is one C++ call.

    bind_forward: returns the graph as it runs eagerly, for inputs that the program does not accept
    and for derivatives that it does not have; it is called once, at the first such call. graph: the
    same graph as an FX graph, if there is one."""
    device = native.torch_module()
    forward = functools.cache(bind_forward)
    reasons: dict[type[Exception], str] = {
        device.AliasedInputs: ALIASED,
        device.InputsWithTangents: TANGENTS,
    }
    refused = tuple(reasons)
    run = program
    if program.has_backward:
        gradients = EagerGradients(forward, graph, len(attributes), program.mutates_inputs)
        run = functools.partial(program, differentiate=gradients)

    def run_eagerly(error: Exception, args: tuple[Any, ...]) -> Any:
        note_eager_call(record, reasons[type(error)])
        return forward()(*args)

    if attributes:

        def call_with_attributes(*args: Any) -> Any:
            try:
                return run(*args, *attributes)
            except refused as error:
                return run_eagerly(error, args)

        return call_with_attributes

    def call(*args: Any) -> Any:
        try:
            return run(*args)
        except refused as error:
            return run_eagerly(error, args)

    return call
