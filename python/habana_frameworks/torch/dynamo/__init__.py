"""torch.compile for hpu: the backend and its reports about itself.

report() lists every captured graph of this process: where its program came from, what runs eagerly
and why, times; a notebook shows it as a page. `with recording():` adds kernels, memory and drawings
to that page. explain() says why the last graph had to be compiled.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..internal.submodules import on_demand
from .records import graph_watch, records
from .records.records import GraphRecord
from .records.records import Report as Report
from .records.records import report as report
from .records.records import reset as reset

if TYPE_CHECKING:
    from .programs.explanation import Explanation


def explain(record: GraphRecord | None = None) -> Explanation:
    """Says why a graph had to be compiled: its key beside the nearest other one. record: one of
    report().graphs, by default the last one that has a key. LookupError if there is none."""
    from .programs.explanation import explain as explain_graph

    return explain_graph(record)


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Records the block for the page that report() shows in a notebook. One at a time."""
    from ..report.recording import record

    with record():
        yield


def _page_of(report: Report) -> str:
    from ..report.collect import collect
    from ..report.page import to_frame
    from ..report.recording import latest

    return to_frame(collect("hpu_backend in this process", latest(), report))


def _write_files(captured: graph_watch.CapturedGraph, name: str) -> os.PathLike[str]:
    from ..report.graph_dump import write_files

    return write_files(captured, name)


# The reports read the records, but the packages below this file do not import the reports.
records.show_pages_with(_page_of)
graph_watch.write_files_with(_write_files)

__getattr__ = on_demand(__name__, "compile_backend", "debug_utils")
