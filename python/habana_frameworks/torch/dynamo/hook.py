"""hpu_backend: from a Dynamo graph to a callable: by the ladder (ladder.py), in parts, or eager."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from .. import native
from ..internal import cache_artifacts
from . import deferred, graph_watch, ladder, parted, records
from .binding import (
    ALIASED,
    TANGENTS,
    Compiled,
    bind_program,
    describe_program,
    log_record,
    note_eager_call,
    warn_once,
)
from .compile_backend import shared_layer
from .dynamic_graph import DynamicGraph
from .eligibility import eager_reason
from .explanation import FrozenMiss, miss_text
from .graph_label import source_of
from .graph_watch import CapturedGraph
from .host_numbers import split_numbers
from .inputs import GraphInputs, example_values, graph_inputs, has_symbols, without_symbols
from .nested_graphs import without_checkpoints, without_regions
from .options import OptionError, key_options, resolve, without_effect
from .parted import BACKWARD, with_tangents_eagerly
from .parted_memory import unshared
from .records import GraphRecord
from .request import Part, Request, Settings
from .service import CompileJob, Loaded, NoProgram, service
from .start import graphs
from .wire import CaptureError

# What is told what became of a graph.
Keep = Callable[[GraphRecord], None]


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
    gm = without_regions(gm)
    for sentence in without_effect(settings):
        warn_once(sentence)
    keep = functools.partial(graphs.note, gm) if settings["start_without_tracing"] else _ignore
    record = GraphRecord(
        f"graph_{records.graph_count()}",
        source_of(gm),
        str(torch._guards.CompileContext.current_compile_id() or ""),
    )
    reason = eager_reason(gm, example_inputs, settings, ladder.DEVICE)
    if reason:
        return _eager(gm, record, reason, keep)
    return _compiled(gm, example_inputs, settings, record, keep)


def _compiled(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    settings: Settings,
    record: GraphRecord,
    keep: Keep,
) -> Compiled:
    """By the ladder. record: new."""
    try:
        numbers = split_numbers(gm)
        module = numbers.module if numbers else gm
        inputs = graph_inputs(module)
        request = Request(module, inputs, settings, record.name, record.source, record.compile_id)
    except CaptureError as error:
        return _in_parts(gm, example_inputs, settings, record, str(error), keep)
    if numbers:
        return numbers.bind(DynamicGraph(request, _compile_shape, service.forget))
    if has_symbols(example_inputs):
        return DynamicGraph(request, _compile_shape, service.forget)
    return compile_static(request, example_inputs, example_values(gm), record, keep)


def _ignore(record: GraphRecord) -> None:
    """No start is kept of this graph."""


def _eager(
    gm: torch.fx.GraphModule, record: GraphRecord, reason: str, keep: Keep = _ignore
) -> Compiled:
    record.origin = "eager"
    record.reason = reason
    records.add(record)
    log_record(record)
    warn_once(f"{record.name} runs eagerly: {reason}")
    shared_layer.log_decisions(gm, set())
    keep(record)
    return without_checkpoints(gm).forward


def _in_parts(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    settings: Settings,
    record: GraphRecord,
    reason: str,
    keep: Keep,
    spent: bool = False,
) -> Compiled:
    """What AOTAutograd makes of a graph that our capture refuses, compiled; else the graph without
    its checkpoints; else eager. A start would need AOTAutograd's own state, so none is kept."""

    if any(isinstance(v, torch.Tensor) and v.is_complex() for v in example_inputs):
        return _eager(gm, record, reason, keep)  # its parts would have the same input

    def compile_part(name: str, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        inner = Request(
            graph,
            GraphInputs([], {}, {}),
            settings,
            f"{record.name}_{name}",
            record.source,
            record.compile_id,
            Part(name, reason),
            spent,
        )
        first = inner.new_record()
        record.parts.append(first)
        try:
            inner = dataclasses.replace(inner, inputs=graph_inputs(graph))
        except CaptureError as error:
            return _refused(inner, inputs, error, first, _ignore)
        if not has_symbols(inputs):
            return compile_static(inner, inputs, None, first)
        dynamic = DynamicGraph(inner, _compile_later_shape, service.forget)
        # A forward that is refused at its first call would come too late.
        example = None if name == BACKWARD else without_symbols(inputs)
        if example is not None:
            dynamic.add(example, compile_static(inner, example, None, first), first)
        return dynamic

    def on_overlap() -> Compiled:
        warn_once(f"{record.name}: {ALIASED}; run eagerly")
        return without_checkpoints(gm).forward

    def on_tangents(args: tuple[Any, ...]) -> Any:
        note_eager_call(record.programs()[0], TANGENTS)
        return without_checkpoints(gm).forward(*args)

    try:
        in_parts = parted.part(gm, example_inputs, compile_part)
        return with_tangents_eagerly(
            unshared(gm, example_inputs, in_parts, on_overlap), on_tangents
        )
    except CaptureError as error:
        record.parts.clear()
        flat = without_checkpoints(gm)
        if flat is gm:
            refused = str(error)
            both = reason if refused == reason else f"{reason}; in parts: {refused}"
            return _eager(gm, record, both, keep)
        warn_once(
            f"{record.name}: its activation checkpoints save no memory by themselves; the compiler "
            f"decides what is computed again: {error}"
        )
        return _compiled(flat, example_inputs, settings, record, keep)


def compile_static(
    request: Request,
    example_inputs: Sequence[Any],
    values: dict[torch.fx.Node, Any] | None,
    record: GraphRecord,
    keep: Keep = _ignore,
) -> Compiled:
    """The callable for one concrete shape. values: known example values of all nodes. record: new;
    is filled and listed. keep: called with what became of the graph if that holds for other
    processes too.

    In a warm-up it may still be without its program (deferred.py).
    """

    def bind(obtain: Callable[[], Loaded], keep: Keep = _ignore) -> Compiled:
        try:
            return _bind(request, example_inputs, values, obtain(), record, keep)
        except (CaptureError, NoProgram) as error:
            return _without_program(request, example_inputs, values, error, record, keep)

    warm_up = deferred.current()
    if warm_up is None:
        return bind(lambda: ladder.climb(request, example_inputs, values, record), keep)
    try:
        found = ladder.look_up(request, example_inputs, values, record)
    except (CaptureError, NoProgram) as error:
        return _without_program(request, example_inputs, values, error, record, keep)
    if isinstance(found, CompileJob):
        job = dataclasses.replace(found, warm_up=True)
        program = warm_up.submit(lambda: ladder.compile_job(request, job, record, None))
    elif warm_up.launches:
        return _bind(request, example_inputs, values, found, record, keep)
    else:
        program = deferred.there(found)
    # Now, while Dynamo has the frame; where no program comes of it the next process traces.
    if record.front_end_key:
        keep(record)
    return deferred.Deferred(
        program,
        bind,
        lambda args: compile_static(request, args, None, request.new_record()),
        record,
    )


def _bind(
    request: Request,
    example_inputs: Sequence[Any],
    values: dict[torch.fx.Node, Any] | None,
    loaded: Loaded,
    record: GraphRecord,
    keep: Keep,
) -> Compiled:
    records.add(record)
    _describe(request, loaded, record)
    if record.front_end_key:
        cache_artifacts.record(record.front_end_key)
    log_record(record)
    _show(request, example_inputs, values, record)
    keep(record)
    module = request.module
    attributes = tuple(request.attributes())
    return bind_program(loaded.program, record, attributes, lambda: module.forward, module.graph)


def _compile_shape(request: Request, arguments: Sequence[Any], record: GraphRecord) -> Compiled:
    return compile_static(request, arguments, None, record)


def _compile_later_shape(
    request: Request, arguments: Sequence[Any], record: GraphRecord
) -> Compiled:
    """Of a part, which cannot be taken back any more."""
    try:
        return _compile_shape(request, arguments, record)
    except CaptureError as error:
        return _eager(request.module, record, str(error))


def _without_program(
    request: Request,
    example_inputs: Sequence[Any],
    values: dict[torch.fx.Node, Any] | None,
    error: CaptureError | NoProgram,
    record: GraphRecord,
    keep: Keep,
) -> Compiled:
    """Eager, unless the user, or a warm-up, wants to know why there is no program."""
    if isinstance(error, CaptureError):
        return _refused(request, example_inputs, error, record, keep)
    lasting = error.lasting
    if error.code == "NOT_FOUND" and request.settings["frozen"]:
        if request.spent and request.part is not None and request.part.name == BACKWARD:
            return _eager(request.module, record, str(error))  # its forward was stored
        raise FrozenMiss(miss_text(record, request.source, str(error))) from error
    _show(request, example_inputs, values, record)
    if not lasting and (request.settings["require_server"] or deferred.current() is not None):
        raise error
    return _eager(request.module, record, str(error), keep if lasting else _ignore)


def _refused(
    request: Request,
    example_inputs: Sequence[Any],
    error: CaptureError,
    record: GraphRecord,
    keep: Keep,
) -> Compiled:
    """What becomes of a graph that cannot be captured."""
    if request.part is None:
        if record.ahead:  # in a thread of its own: AOTAutograd's state is of the whole process
            raise error
        settings = request.settings
        return _in_parts(
            request.module, example_inputs, settings, record, str(error), keep, request.spent
        )
    # A backward comes too late to take its forward back.
    if request.part.name != BACKWARD:
        raise error
    return _eager(request.module, record, str(error))


def _show(
    request: Request,
    example_inputs: Sequence[Any],
    values: dict[torch.fx.Node, Any] | None,
    record: GraphRecord,
) -> None:
    """To those who watch captured graphs. A graph from the store is captured for them alone."""
    device = native.torch_module()
    graph_watch.show(
        record,
        lambda: CapturedGraph(
            ladder.capture(request, example_inputs, values, request.new_record()),
            key_options(request.settings),
            device.device_kind(),
            device.isa_level(),
        ),
    )


def _describe(request: Request, loaded: Loaded, record: GraphRecord) -> None:
    names = describe_program(record, loaded, bool(request.settings["use_eager_fallback"]))
    shared_layer.log_decisions(request.module, names)
