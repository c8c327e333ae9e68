"""hpu_backend: from a Dynamo graph to a callable, step by step.

1. Options, and the graph's record. Work on streams is taken out of the graph and done around it
(programs/stream_work.py). 2. Graphs that are not for the compiler run eagerly. 3. Numbers that the
user's Python computes are split off, and the graph's inputs are described. 4. A graph of one shape
gets its program at once (programs/shape.py); one whose sizes change gets one per shape (dynamic/).
5. What our capture refuses is partitioned by AOTAutograd (partitioned/), without its activation
checkpoints if need be, and runs eagerly at last.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ..torch_compat import features
from ..torch_compat.compile_context import CompileContext
from .capture.inputs import example_values, graph_inputs, has_symbols
from .capture.nested_graphs import without_checkpoints, without_regions
from .capture.wire import CaptureError
from .dynamic.dynamic_graph import DynamicGraph
from .dynamic.host_numbers import split_numbers
from .eligibility import eager_reason
from .partitioned.parts import compile_parts
from .programs import lookup
from .programs.binding import Compiled, warn_once
from .programs.request import Request, Settings
from .programs.service import service
from .programs.shape import Eager, Keep, Shape, compile_shape, ignore, run_eagerly
from .programs.stream_work import split_stream_work
from .records import fallback_list, records
from .records.graph_label import source_of
from .records.records import GraphRecord
from .settings.options import OptionError, without_effect
from .settings.resolve import resolve


@dataclass(frozen=True)
class DynamoGraph:
    """One call of the backend."""

    module: torch.fx.GraphModule
    example_inputs: Sequence[Any]
    settings: Settings
    record: GraphRecord
    keep: Keep


def hpu_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **kwargs: Any,
) -> Compiled:
    """The torch.compile backend.

    options: see docs/options.md. OptionError (a ValueError) names a wrong key or value. Whatever
    else goes wrong, the answer is a callable that gives eager's result. mode: Inductor's, accepted
    because scripts pass it to every backend.
    """
    if kwargs:
        raise OptionError(f"hpu_backend takes only `options`, not {', '.join(sorted(kwargs))}")
    if mode is not None:
        warn_once(f"mode={mode!r} has no effect: it chooses among Inductor's ways to compile")
    settings = resolve(options)
    for sentence in without_effect(settings):
        warn_once(sentence)
    traced = without_regions(gm)
    work = split_stream_work(traced)
    module = work.module if work else traced
    record = GraphRecord(
        f"graph_{records.graph_count()}",
        source_of(module),
        str(CompileContext.current_compile_id() or ""),
    )
    starts = settings["start_without_tracing"] and not features.is_off(features.STARTS)
    starts = starts and not fallback_list.names  # another process may have another list
    keep = functools.partial(_note_for_start, traced) if starts else ignore
    graph = DynamoGraph(module, example_inputs, settings, record, keep)
    reason = eager_reason(module, example_inputs, settings, lookup.DEVICE)
    compiled = run_eagerly(module, record, reason, keep) if reason else _compile(graph)
    return work.bind(compiled) if work else compiled


def _note_for_start(module: torch.fx.GraphModule, record: GraphRecord) -> None:
    from .start import graphs

    graphs.note(module, record)


def _compile(graph: DynamoGraph) -> Compiled:
    record = graph.record
    try:
        numbers = split_numbers(graph.module)
        module = numbers.module if numbers else graph.module
        inputs = graph_inputs(module)
    except CaptureError as error:
        return _partition(graph, str(error))
    request = Request(module, inputs, graph.settings, record.name, record.source, record.compile_id)
    if numbers:
        return numbers.bind(DynamicGraph(request, _compile_later, service.forget))
    if has_symbols(graph.example_inputs):
        return DynamicGraph(request, _compile_later, service.forget)
    shape = Shape(request, graph.example_inputs, example_values(module), record, graph.keep)
    return compile_shape(shape, _partition_shape)


def _partition(graph: DynamoGraph, reason: str, spent: bool = False) -> Compiled:
    """reason: why our capture refused the graph."""
    record = graph.record
    if any(isinstance(v, torch.Tensor) and v.is_complex() for v in graph.example_inputs):
        # Its parts would have the same input.
        return run_eagerly(graph.module, record, reason, graph.keep)
    made = compile_parts(graph.module, graph.example_inputs, graph.settings, record, reason, spent)
    if not isinstance(made, Eager):
        return made
    flat = without_checkpoints(graph.module)
    if flat is graph.module:
        return run_eagerly(graph.module, record, made.reason, graph.keep)
    warn_once(
        f"{record.name}: its activation checkpoints save no memory by themselves; the compiler "
        f"decides what is computed again: {made.reason}"
    )
    return _compile(dataclasses.replace(graph, module=flat))


def _partition_shape(shape: Shape, reason: str) -> Compiled:
    # It is compiled in a thread of its own, and AOTAutograd's state belongs to the process.
    if shape.record.ahead:
        raise CaptureError(reason)
    request = shape.request
    graph = DynamoGraph(
        request.module, shape.example_inputs, request.settings, shape.record, shape.keep
    )
    return _partition(graph, reason, request.spent)


def _compile_later(request: Request, arguments: Sequence[Any], record: GraphRecord) -> Compiled:
    """Compiles one shape of a graph whose sizes change."""
    return compile_shape(Shape(request, arguments, None, record), _partition_shape)
