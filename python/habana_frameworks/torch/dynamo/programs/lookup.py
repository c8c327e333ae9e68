"""Memory, store, compile: how a graph of one concrete shape gets its program."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import torch

from ... import native
from ..capture import listing
from ..capture.graph_capture import capture_graph
from ..capture.wire import CaptureError
from ..keys.graph_key import graph_factors
from ..records import fallback_list, op_watch
from ..records.graph_label import label
from ..records.progress import CompileProgress
from ..records.ranges import host_range
from ..records.records import GraphRecord
from ..settings.options import key_options
from .front_end_keys import front_end_key, stored_program
from .request import Request
from .service import CompileJob, Loaded, NoProgram, service

# TORCH_LOGS and torch._logging.set_logs(modules=...) take the name of a package.
_log = logging.getLogger("habana_frameworks.torch.dynamo")

# Graphs must compute on this device. Tests of the fallback chain without a device set it to "cpu".
DEVICE = "hpu"


def obtain(
    request: Request,
    example_inputs: Sequence[Any],
    values: dict[torch.fx.Node, Any] | None,
    record: GraphRecord,
) -> Loaded:
    """Gets the program from memory, from the store, or by compiling it."""
    with host_range(f"hpu::prepare {request.name}"):
        found = look_up(request, example_inputs, values, record)
        if isinstance(found, Loaded):
            return found
        progress_mode = str(request.settings["show_progress"])
        with CompileProgress(request.name, progress_mode) as progress:
            return compile_job(request, found, record, progress)


def look_up(
    request: Request,
    example_inputs: Sequence[Any],
    values: dict[torch.fx.Node, Any] | None,
    record: GraphRecord,
) -> Loaded | CompileJob:
    """A program from memory or from the store, or else the request to make of the server."""
    options = key_options(request.settings)
    if fallback_list.names:
        capture(request, example_inputs, values, request.new_record())  # raises for a name on it
    front_end = front_end_key(
        lambda: graph_factors(
            request.module, request.inputs, [*example_inputs, *request.attributes()]
        ),
        options,
        label(request.name, request.source),
        record,
    )
    if front_end is not None:
        remembered = service.remembered(front_end.key)
        if remembered is not None:
            record.origin = "memory"
            return remembered
        loaded = stored_program(front_end, request.name, record)
        if loaded is not None:
            return loaded
    try:
        with host_range(f"hpu::capture {request.name}"):
            graph = capture(request, example_inputs, values, record)
    except CaptureError as error:
        if front_end is not None:
            service.remember_failure(front_end.key, error)
        raise
    return CompileJob(
        graph,
        options,
        front_end,
        float(request.settings["compile_timeout_s"]),
        warm_up=request.settings["compile_priority"] == "warm-up",
        frozen=bool(request.settings["frozen"]),
    )


def compile_job(
    request: Request, job: CompileJob, record: GraphRecord, progress: CompileProgress | None
) -> Loaded:
    try:
        with host_range(f"hpu::compile {request.name}"):
            return service.compile(job, record, progress)
    except NoProgram as error:
        if job.front_end is not None and error.lasting:
            service.remember_failure(job.front_end.key, error)
        raise


def capture(
    request: Request,
    example_inputs: Sequence[Any],
    values: dict[torch.fx.Node, Any] | None,
    record: GraphRecord,
) -> bytes:
    """The serialised graph. A CaptureError says why there is none."""
    started = time.perf_counter()
    torch_module = native.torch_module()

    def new_builder() -> Any:
        builder = torch_module.GraphBuilder(request.name)
        read = listing.is_read() or op_watch.is_watched() or fallback_list.names
        return listing.GraphListing(builder) if read else builder

    try:
        captured = capture_graph(
            request.module,
            request.inputs,
            example_inputs,
            values,
            new_builder,
            DEVICE,
            bool(request.settings["keep_input_mutations"]),
            request.requires_grad(example_inputs),
        )
    except (CaptureError, KeyboardInterrupt):
        raise
    except Exception as error:
        _log.debug("capture of %s failed", request.name, exc_info=True)
        first_line = str(error).partition("\n")[0]
        raise CaptureError(f"capture failed: {type(error).__name__}: {first_line}") from error
    record.nodes, record.decomposed = captured.nodes, captured.decomposed
    builder = captured.builder
    if isinstance(builder, listing.GraphListing):
        builder.log()
        record.targets = builder.targets
        named = fallback_list.first(builder.targets)
        if named:
            raise CaptureError(f"hpu_fallback_op_list names {named}")
    graph: bytes = builder.serialize()
    record.capture_ms = (time.perf_counter() - started) * 1e3
    return graph
