"""One graph with inputs of one shape: its program, or why there is none, and then its callable.

`outcome_of` gives one of three results and `callable_of` makes the callable for any of them:

- Program: the store had the program, or the compile server made it;
- Parts: our capture refuses the graph, so AOTAutograd may partition it (partitioned/);
- Eager: there is no program, for a reason that the report shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ... import native
from ..capture import listing
from ..capture.nested_graphs import without_checkpoints
from ..capture.wire import CaptureError
from ..records import graph_watch, node_decisions, op_watch, records
from ..records.graph_watch import CapturedGraph
from ..records.records import GraphRecord
from ..settings.options import key_options
from . import deferred, lookup
from .binding import (
    Compiled,
    bind_program,
    describe_program,
    log_record,
    note_stored,
    warn_once,
)
from .explanation import FrozenMiss, miss_text
from .request import BACKWARD, Request
from .service import CompileJob, Loaded, NoProgram

# Called with what became of a graph.
Keep = Callable[[GraphRecord], None]


def ignore(record: GraphRecord) -> None:
    """Keeps nothing: no start of the graph is stored."""


@dataclass(frozen=True)
class Shape:
    """The known facts about one graph and one shape of its inputs."""

    request: Request
    example_inputs: Sequence[Any]
    values: dict[torch.fx.Node, Any] | None  # example values of all nodes, where they are known
    record: GraphRecord  # new; it is filled, and listed in the report
    keep: Keep = ignore  # called with the record where the outcome holds in other processes too


@dataclass(frozen=True)
class Program:
    loaded: Loaded


@dataclass(frozen=True)
class Parts:
    reason: str


@dataclass(frozen=True)
class Eager:
    reason: str
    lasting: bool = True  # the outcome is the same for this graph in every process


Outcome = Program | Parts | Eager
# Makes the callable for a graph that our capture refuses, for the given reason.
Partition = Callable[[Shape, str], Compiled]


def compile_shape(shape: Shape, partition: Partition) -> Compiled:
    """The callable. In a warm-up it may still be without its program (deferred.py)."""
    warm_up = deferred.current()
    if warm_up is not None:
        return _defer(shape, partition, warm_up)

    def obtain() -> Loaded:
        return lookup.obtain(shape.request, shape.example_inputs, shape.values, shape.record)

    return callable_of(shape, outcome_of(shape, obtain), partition)


def outcome_of(shape: Shape, obtain: Callable[[], Loaded]) -> Outcome:
    """Raises FrozenMiss or NoProgram where the user asked for an error."""
    try:
        return Program(obtain())
    except (CaptureError, NoProgram) as error:
        return _failure(shape, error)


def callable_of(shape: Shape, outcome: Outcome, partition: Partition) -> Compiled:
    match outcome:
        case Program(loaded):
            return _bind(shape, loaded)
        case Parts(reason):
            return partition(shape, reason)
        case Eager(reason, lasting):
            keep = shape.keep if lasting else ignore
            return run_eagerly(shape.request.module, shape.record, reason, keep)


def run_eagerly(
    module: torch.fx.GraphModule, record: GraphRecord, reason: str, keep: Keep = ignore
) -> Compiled:
    """The graph as PyTorch runs it. The record is listed with the reason."""
    record.origin = "eager"
    record.reason = reason
    records.add(record)
    log_record(record)
    warn_once(f"{record.name} runs eagerly: {reason}")
    node_decisions.log_decisions(module, set())
    if op_watch.is_watched():
        op_watch.tell_eager(module)
    keep(record)
    return without_checkpoints(module).forward


def _defer(shape: Shape, partition: Partition, warm_up: deferred.Deferral) -> Compiled:
    """Compiles the program in another thread, because this is the thread of a warm-up."""
    request, record = shape.request, shape.record
    try:
        found = lookup.look_up(request, shape.example_inputs, shape.values, record)
    except (CaptureError, NoProgram) as error:
        return callable_of(shape, _failure(shape, error), partition)
    if isinstance(found, CompileJob):
        job = dataclasses.replace(found, warm_up=True)
        program = warm_up.submit(lambda: lookup.compile_job(request, job, record, None))
    elif warm_up.launches:
        return _bind(shape, found)
    else:
        program = deferred.there(found)
    # The start is kept now, while Dynamo has the frame. If no program comes of it, the next process
    # traces the frame.
    if record.front_end_key:
        shape.keep(record)
    later = dataclasses.replace(shape, keep=ignore)
    return deferred.Deferred(
        program,
        lambda obtain: callable_of(later, outcome_of(later, obtain), partition),
        lambda args: compile_shape(Shape(request, args, None, request.new_record()), partition),
        record,
    )


def _bind(shape: Shape, loaded: Loaded) -> Compiled:
    request, record = shape.request, shape.record
    records.add(record)
    names = describe_program(record, loaded, bool(request.settings["use_eager_fallback"]))
    node_decisions.log_decisions(request.module, names)
    _tell_readers(shape, names)
    note_stored(record)
    log_record(record)
    _show(shape)
    shape.keep(record)
    module = request.module
    attributes = tuple(request.attributes())
    return bind_program(loaded.program, record, attributes, lambda: module.forward, module.graph)


def _failure(shape: Shape, error: CaptureError | NoProgram) -> Parts | Eager:
    """Raises where the user, or a warm-up, wants to know why there is no program."""
    if isinstance(error, CaptureError):
        return Parts(str(error))
    request, record = shape.request, shape.record
    if error.code == "NOT_FOUND" and request.settings["frozen"]:
        if request.spent and request.part is not None and request.part.name == BACKWARD:
            return Eager(str(error), lasting=False)  # the program of its forward was stored
        raise FrozenMiss(miss_text(record, request.source, str(error))) from error
    _show(shape)
    asked = request.settings["require_server"] or deferred.current() is not None
    if asked and not error.lasting:
        raise error
    return Eager(str(error), error.lasting)


def _tell_readers(shape: Shape, eager_ops: set[str]) -> None:
    """Tells those who read captured graphs, in the log or by their operators, about this one. A
    graph whose program was stored is captured for them, which writes its listing."""
    if not (listing.is_read() or op_watch.is_watched()):
        return
    if shape.record.targets is None:
        again = shape.request.new_record()
        try:
            lookup.capture(shape.request, shape.example_inputs, shape.values, again)
        except CaptureError as error:
            warn_once(f"{shape.record.name} has a stored program and is not listed: {error}")
            return
        shape.record.targets = again.targets
    op_watch.tell(shape.record.targets or [], eager_ops, shape.record.recipes)


def _show(shape: Shape) -> None:
    """Shows the captured graph to its watchers. A graph whose program came from the store is
    captured for them."""
    request = shape.request
    device = native.torch_module()
    graph_watch.show(
        shape.record,
        lambda: CapturedGraph(
            lookup.capture(request, shape.example_inputs, shape.values, request.new_record()),
            key_options(request.settings),
            device.device_kind(),
            device.isa_level(),
        ),
    )
