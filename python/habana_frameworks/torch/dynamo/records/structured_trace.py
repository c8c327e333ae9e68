"""PyTorch's structured trace (TORCH_TRACE, tlparse): our stages, and what became of each graph."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict

from ...torch_compat import features
from .records import GraphRecord

_trace = features.load(features.TRACE_LOG, "trace_log")


def is_on() -> bool:
    return _trace is not None and _trace.has_readers()


def log_graph(record: GraphRecord) -> None:
    """An artifact hpu_backend_<graph>.json: origin, keys and what they are made of, times."""
    if _trace is None:
        return
    _trace.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": f"hpu_backend_{record.name}", "encoding": "json"},
        payload_fn=lambda: json.dumps(asdict(record), indent=1),
        expect_trace_id=False,
    )


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """ "hpu::fetch graph_0": an interval among tlparse's chromium events, if there is a trace."""
    if not is_on():
        yield
        return
    timing = features.load(features.TRACE_INTERVALS, "timing")
    if timing is None:
        yield
        return
    kind, _, graph = name.partition(" ")
    with timing.dynamo_timed(kind, metadata={"graph": graph}):
        yield
