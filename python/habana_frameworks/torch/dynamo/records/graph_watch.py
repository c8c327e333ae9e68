"""The watchers of captured graphs: recordings of a report, and GRAPH_VISUALIZATION."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from .records import GraphRecord

_log = logging.getLogger("habana_frameworks.torch.dynamo")
_TRUE = frozenset({"1", "true", "on", "yes", "y", "t"})


@dataclass(frozen=True)
class CapturedGraph:
    """A captured graph and the options with which the compiler is asked for it."""

    graph: bytes = field(repr=False)
    options: Mapping[str, str]  # the options that are part of the key
    device_kind: str
    isa_level: str


FileWriter = Callable[[CapturedGraph, str], os.PathLike[str]]
Watcher = Callable[[GraphRecord, CapturedGraph], None]
_watchers: tuple[Watcher, ...] = ()
_write_files: FileWriter | None = None


def write_files_with(write_files: FileWriter) -> None:
    """Sets the function that writes the files of GRAPH_VISUALIZATION and returns their folder."""
    global _write_files
    _write_files = write_files


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Calls `watcher` for every graph that is prepared in the block, including those that are cache
    hits."""
    global _watchers
    _watchers = (*_watchers, watcher)
    try:
        yield
    finally:
        _watchers = tuple(w for w in _watchers if w != watcher)


def are_files_asked_for() -> bool:
    """Reads GRAPH_VISUALIZATION as Gaudi's software does: true in any letter case, or 1."""
    return os.environ.get("GRAPH_VISUALIZATION", "").strip().lower() in _TRUE


def is_watched() -> bool:
    return bool(_watchers) or are_files_asked_for()


def show(record: GraphRecord, capture: Callable[[], CapturedGraph]) -> None:
    """capture: called if there is a watcher; it takes time, and may raise anything."""
    files = are_files_asked_for()
    if not _watchers and not files:
        return
    try:
        captured = capture()
        for watcher in _watchers:
            watcher(record, captured)
        if files and _write_files is not None:
            _log.warning(
                "%s: its stages are in %s", record.name, _write_files(captured, record.name)
            )
    except Exception as error:
        # A picture that cannot be made must not disturb the user's program.
        _log.warning("%s is not drawn: %s: %s", record.name, type(error).__name__, error)
