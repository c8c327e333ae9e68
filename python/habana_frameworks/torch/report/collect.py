"""Puts a document together from what every process keeps, and from a recording if there is one."""

from __future__ import annotations

import platform
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import torch

from .. import native
from ..dynamo.records import operators
from ..dynamo.records.graph_watch import CapturedGraph
from ..dynamo.records.records import GraphRecord, Report, report, since
from ..utils.profiler.host_rates import HostRates
from . import document, dynamo_events, graph_dump, timeline
from .cures import for_eager
from .document import Document, Drawing, EagerSegment, Graph, RecipeTimeline, Stage
from .lookups import Known, lookup, stored
from .recording import Recording

# At most this many graphs are drawn; the others say that they are not.
MAX_DRAWN = 24
# Inputs that are listed for one graph.
MAX_INPUTS = 16

STAGES = {
    "Dynamo": "PyTorch traces the Python code and builds guards",
    "key": "the graph's front-end key; the first one starts or finds the compile server",
    "fetch": "asking the store",
    "capture": "the graph in ATen calls",
    "compile": "waiting for the compile server: passes, recipes, sending them",
    "load": "the program's recipes on the device",
    "first run": "the first call until the device has ended it, without the wait for earlier work",
}
_INPUT = re.compile(r"input \d+")
_STEP = re.compile(r"eager .*?= (?P<op>[\w:.]+)\(.*?\)\s*(?:# (?P<reason>.*))?$")


def collect(title: str, recording: Recording | None, known: Report | None = None) -> Document:
    """With a recording: the events since it began. Without one: everything that the process has
    kept, with the graphs of `known`, which is the newest report by default."""
    if recording is not None:
        known = since(recording.start)
    elif known is None:
        known = report()
    if recording is None:
        mark = dynamo_events.Mark()
        compilations = dynamo_events.compilations(mark)
    else:
        mark, compilations = recording.mark, recording.compilations
    graphs = _graphs(known.graphs, compilations, recording)
    stages = _sum(graphs)
    peak = HostRates.known() if recording is not None else None
    timelines: list[RecipeTimeline] = []
    left_out = 0
    if recording is not None:
        timelines, left_out = timeline.recipe_timelines(recording.profile, peak)
    return Document(
        title,
        datetime.now().astimezone().isoformat(timespec="seconds"),
        _device(),
        {"torch": torch.__version__, "python": platform.python_version()},
        recording is not None,
        recording.duration_ms if recording else None,
        sum(stage.ms for stage in stages),
        stages,
        graphs,
        dynamo_events.breaks(mark),
        dynamo_events.recompiles(compilations),
        _eager(known.graphs, graphs),
        operators.since(recording.operators_before) if recording else known.operators,
        timelines,
        document.Peak(peak.flops_per_second, peak.bf16_flops_per_second, peak.bytes_per_second)
        if peak
        else None,
        recording.memory if recording else None,
        _notes(known, recording, left_out),
    )


def _device() -> str:
    module = native.torch_module()
    kind = f"{module.device_kind()} {module.isa_level()}".strip()
    return f"emulated {kind}; times are CPU timings" if module.is_emulated() else kind


def _graphs(
    listed: list[GraphRecord], compilations: list[Any], recording: Recording | None
) -> list[Graph]:
    dynamo = {m.compile_id: dynamo_events.dynamo_ms(m) for m in compilations}
    first_runs = timeline.first_runs(recording.profile) if recording else {}
    captured = {id(r): c for r, c in recording.captured} if recording else {}
    earlier: list[Known] = stored({r.front_end_key for r in listed})
    graphs: list[Graph] = []
    for record in listed:
        runs = first_runs.get(record.name, [])
        # A dynamic graph is traced once, for its first shape.
        parts = {
            "Dynamo": dynamo.pop(record.compile_id, 0.0),
            "key": record.key_ms,
            "fetch": record.fetch_ms,
            "capture": record.capture_ms,
            "compile": record.request_ms,
            "load": record.load_ms,
            "first run": runs.pop(0) if runs and record.origin != "eager" else 0.0,
        }
        inputs = [value for name, value in record.factors if _INPUT.fullmatch(name)]
        stages = [Stage(name, ms, STAGES[name]) for name, ms in parts.items()]
        drawings, no_drawing = _draw(captured.get(id(record)), len(graphs), recording)
        graphs.append(
            Graph(
                record.name,
                record.source,
                record.origin,
                record.reason,
                record.nodes,
                record.recipes,
                record.eager_nodes,
                record.front_end_key,
                record.content_key,
                inputs[:MAX_INPUTS],
                max(0, len(inputs) - MAX_INPUTS),
                stages,
                sum(parts.values()),
                lookup(record, earlier),
                drawings,
                no_drawing,
            )
        )
        if record.front_end_key:
            earlier.append(Known(record.name, record.front_end_key, record.factors))
    return graphs


def _draw(
    captured: CapturedGraph | None, number: int, recording: Recording | None
) -> tuple[list[Drawing], str]:
    if recording is None:
        return [], "graphs are drawn while a report is recorded"
    if captured is None:
        return [], "it was not captured"
    if number >= MAX_DRAWN:
        return [], f"only the first {MAX_DRAWN} graphs are drawn"
    try:
        return graph_dump.drawings(captured), ""
    except (graph_dump.NoDrawing, OSError) as error:
        return [], str(error)


def _sum(graphs: list[Graph]) -> list[Stage]:
    total: dict[str, float] = defaultdict(float)
    for graph in graphs:
        for stage in graph.stages:
            total[stage.name] += stage.ms
    return [Stage(name, total[name], meaning) for name, meaning in STAGES.items()]


def _eager(listed: Iterable[GraphRecord], graphs: list[Graph]) -> list[EagerSegment]:
    segments = []
    for record, graph in zip(listed, graphs, strict=True):
        if record.origin == "eager":
            segments.append(
                EagerSegment(
                    record.name,
                    "the whole graph",
                    record.reason,
                    for_eager(record.reason),
                    record.source,
                )
            )
        for (op, reason), count in Counter(map(_step, record.eager_steps)).items():
            place = _source_of_op(op, graph) or record.source
            segments.append(EagerSegment(record.name, op, reason, for_eager(reason), place, count))
        for reason, calls in record.eager_calls.items():
            segments.append(
                EagerSegment(
                    record.name,
                    "whole calls",
                    reason,
                    for_eager(reason),
                    record.source,
                    calls,
                )
            )
    return segments


def _step(text: str) -> tuple[str, str]:
    """The operator and the reason of a program's eager step."""
    found = _STEP.match(text)
    return (found["op"], found["reason"] or "") if found else (text, "")


def _source_of_op(op: str, graph: Graph) -> str:
    """The line that calls "aten::lgamma", if the graph is drawn and has one such node."""
    name = op.replace("::", ".")
    sources = {
        node.source
        for drawing in graph.drawings[-1:]
        for node in drawing.nodes
        if node.op == name or node.op.startswith(name + ".")
    }
    return next(iter(sources)) if len(sources) == 1 else ""


def _notes(known: Report, recording: Recording | None, left_out: int) -> list[str]:
    notes = []
    if recording is None:
        notes.append(
            "Nothing was recorded: kernels, memory, first runs and drawings are missing, and "
            "Dynamo remembers 64 compilations. hpu-compile report SCRIPT records, and so does "
            "`with habana_frameworks.torch.dynamo.recording():`."
        )
    if known.dropped_graphs:
        notes.append(f"{known.dropped_graphs} older graphs are not listed.")
    if known.dropped_shapes:
        notes.append(f"{known.dropped_shapes} programs of dynamic graphs were dropped and remade.")
    if left_out:
        notes.append(f"{left_out} recipes with less time are not listed.")
    if recording is None:
        return notes
    notes += [
        f"The trace was too long: {record['args']['name']} records are missing."
        for record in recording.profile.records
        if record["name"] == "dropped_records"
    ]
    if recording.dropped_captures:
        notes.append(f"{recording.dropped_captures} graphs were not kept for drawing.")
    return notes
