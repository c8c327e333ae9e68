"""A Dynamo graph in the parts that AOTAutograd makes of it, each of them compiled.

The parts need AOTAutograd's state, which belongs to the process, so no start is stored for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from ..capture.inputs import GraphInputs, graph_inputs, has_symbols, without_symbols
from ..capture.nested_graphs import without_checkpoints
from ..capture.wire import CaptureError
from ..dynamic.dynamic_graph import DynamicGraph
from ..programs.binding import ALIASED, TANGENTS, Compiled, note_eager_call, warn_once
from ..programs.request import BACKWARD, Part, Request, Settings
from ..programs.service import service
from ..programs.shape import Eager, Shape, compile_shape, run_eagerly
from ..records.records import GraphRecord
from . import aot_graphs
from .aot_graphs import with_tangents_eagerly
from .opaque_values import split_opaque_values
from .shared_memory import unshared


def compile_parts(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    settings: Settings,
    record: GraphRecord,
    reason: str,
    spent: bool = False,
) -> Compiled | Eager:
    """The graph as a function, or the reason why AOTAutograd does not lead to one either.

    record: the record of the graph; the records of the parts are listed in its place. reason: why
    our own capture refused it. spent: as in Request.
    """

    def compile_part(name: str, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        opaque = split_opaque_values(graph, inputs)
        if opaque is not None:
            return opaque.bind(compile_plain(name, opaque.graph, opaque.inputs(inputs)))
        return compile_plain(name, graph, inputs)

    def compile_plain(name: str, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        request = Request(
            graph,
            GraphInputs([], {}, {}),
            settings,
            f"{record.name}_{name}",
            record.source,
            record.compile_id,
            Part(name, reason),
            spent,
        )
        first = request.new_record()
        record.parts.append(first)
        try:
            request = dataclasses.replace(request, inputs=graph_inputs(graph))
        except CaptureError as error:
            return _refuse(Shape(request, inputs, None, first), str(error))
        if not has_symbols(inputs):
            return compile_shape(Shape(request, inputs, None, first), _refuse)
        dynamic = DynamicGraph(request, _compile_later, service.forget)
        # Compiled at once: if a forward were refused at its first call, that would be too late.
        example = None if name == BACKWARD else without_symbols(inputs)
        if example is not None:
            call = compile_shape(Shape(request, example, None, first), _refuse)
            dynamic.add(example, call, first)
        return dynamic

    def on_overlap() -> Compiled:
        warn_once(f"{record.name}: {ALIASED}; run eagerly")
        return without_checkpoints(module).forward

    def on_tangents(args: tuple[Any, ...]) -> Any:
        note_eager_call(record.programs()[0], TANGENTS)
        return without_checkpoints(module).forward(*args)

    try:
        call = aot_graphs.part(module, example_inputs, compile_part)
        call = unshared(module, example_inputs, call, on_overlap)
        return with_tangents_eagerly(call, on_tangents)
    except CaptureError as error:
        record.parts.clear()
        refused = str(error)
        return Eager(reason if refused == reason else f"{reason}; in parts: {refused}")


def _refuse(shape: Shape, reason: str) -> Compiled:
    """A part that our capture refuses makes the whole graph run eagerly, but for a backward it is
    too late for that."""
    part = shape.request.part
    if part is None or part.name != BACKWARD:
        raise CaptureError(reason)
    return run_eagerly(shape.request.module, shape.record, reason)


def _run_eagerly(shape: Shape, reason: str) -> Compiled:
    return run_eagerly(shape.request.module, shape.record, reason)


def _compile_later(request: Request, arguments: Sequence[Any], record: GraphRecord) -> Compiled:
    """A later shape of a part, which can no longer be taken back."""
    return compile_shape(Shape(request, arguments, None, record), _run_eagerly)
