"""Memory, store, compile: how a graph of one concrete shape gets its program."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ... import native
from ..capture import listing
from ..capture.graph_capture import capture_graph
from ..capture.wire import CaptureError
from ..fingerprints.function_text import Uncacheable
from ..keys.graph_key import graph_factors
from ..records import fallback_list, op_watch
from ..records.graph_label import label
from ..records.progress import CompileProgress
from ..records.ranges import host_range
from ..records.records import GraphRecord
from ..settings.options import key_options
from .request import Request
from .service import CompileJob, FrontEndKey, Loaded, NoProgram, UnusableProgram, service

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
    front_end = front_end_key(request, example_inputs, options, record)
    if front_end is not None:
        remembered = service.remembered(front_end.key)
        if remembered is not None:
            record.origin = "memory"
            return remembered
        try:
            with host_range(f"hpu::fetch {request.name}"):
                loaded = service.fetch(front_end.key, record)
        except UnusableProgram as error:
            record.unusable = str(error)
        else:
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


def front_end_key(
    request: Request,
    example_inputs: Sequence[Any],
    options: Mapping[str, str],
    record: GraphRecord,
) -> FrontEndKey | None:
    """Returns None where the things that the graph refers to cannot be described; such a graph is
    captured in every process."""
    started = time.perf_counter()
    build_id = service.build_id
    inputs = [*example_inputs, *request.attributes()]
    try:
        factors = graph_factors(request.module, request.inputs, inputs)
    except Uncacheable as error:
        record.cacheable = False
        record.reason = f"captured in every process: {error}"
        return None
    builder = native.client_module().KeyBuilder()
    device = native.torch_module()
    for factor in (
        ("compiler", build_id),
        ("device", device.device_kind()),
        ("isa_level", device.isa_level()),
        *sorted(options.items()),
        *factors,
    ):
        builder.field(*factor)
    key: bytes = builder.digest()
    record.front_end_key = key.hex()
    record.factors = list(builder.factors())
    record.key_ms = (time.perf_counter() - started) * 1e3
    return FrontEndKey(key, record.factors, label(request.name, request.source))


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
