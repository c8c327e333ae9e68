"""Counters of the process (compilations, CPU fallbacks, recipe cache) and their dump to a file.

PT_HPU_METRICS_FILE, PT_HPU_METRICS_FILE_FORMAT (json or text) and PT_HPU_METRICS_DUMP_TRIGGERS
(process_exit, metric_change) write all metrics to a file.
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import native
from ..dynamo.records import records
from ..internal import bridge_config

Stats = dict[str, Any]


def _graph_compilation() -> Stats:
    """Compilations of this process and the time they took in microseconds."""
    compiled = [g for g in records.report().graphs if g.origin in ("compiled", "coalesced")]
    total = round(sum(g.compile_ms for g in compiled) * 1e3)
    stats: Stats = {
        "TotalNumber": len(compiled),
        "TotalTime": total,
        "AvgTime": total // len(compiled) if compiled else 0,
    }
    if os.environ.get("PT_HPU_METRICS_GC_DETAILS") == "1":
        stats["recipe"] = [(g.name, round(g.compile_ms * 1e3)) for g in compiled]
    return stats


def _cpu_fallback() -> Stats:
    counts = dict(native.torch_module().fallback_counts())
    return {"TotalNumber": sum(counts.values()), "FallbackOps": counts}


def _recipe_cache() -> Stats:
    """Programs and recipes found, and programs that had to be compiled."""
    graphs = records.report().graphs
    hits = [g for g in graphs if g.origin in ("store", "memory")]
    misses = [g for g in graphs if g.origin in ("compiled", "coalesced")]
    return {
        "TotalHit": len(hits),
        "RecipeHit": sum(g.recipes for g in hits),
        "TotalMiss": len(misses),
        "RecipeMiss": sum(g.recipes for g in misses),
    }


_SOURCES: dict[str, Callable[[], Stats]] = {
    "graph_compilation": _graph_compilation,
    "cpu_fallback": _cpu_fallback,
    "recipe_cache": _recipe_cache,
}


def _subtract(now: Any, before: Any) -> Any:
    if isinstance(now, dict):
        base = before if isinstance(before, dict) else {}
        return {key: _subtract(value, base.get(key, 0)) for key, value in now.items()}
    if isinstance(now, list):
        return now[len(before) if isinstance(before, list) else 0 :]
    return now - before if isinstance(before, int) else now


class Metric:
    """One metric: name(), stats() as (key, value) pairs since the last reset."""

    def __init__(self, name: str) -> None:
        if name not in _SOURCES:
            raise ValueError(f"no metric {name!r}: expected one of {', '.join(_SOURCES)}")
        self._name = name
        self._start: Stats = {}
        self._end: Stats | None = None

    def name(self) -> str:
        return self._name

    def stats(self) -> list[tuple[str, Any]]:
        now = _SOURCES[self._name]() if self._end is None else self._end
        values = _subtract(now, self._start) if self._start else now
        if "AvgTime" in values:
            number = values["TotalNumber"]
            values["AvgTime"] = values["TotalTime"] // number if number else 0
        return list(values.items())

    def reset(self) -> None:
        """Counts from zero again."""
        self._start = _SOURCES[self._name]()

    def start(self) -> None:
        self.reset()
        self._end = None

    def stop(self) -> None:
        """Freezes the values."""
        self._end = _SOURCES[self._name]()

    def __enter__(self) -> Metric:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_global: dict[str, Metric] = {}
_lock = threading.Lock()


def metric_global(name: str) -> Metric:
    """The metric of the whole process."""
    with _lock:
        if name not in _global:
            _global[name] = Metric(name)
        return _global[name]


def metric_localcontext(name: str) -> Metric:
    """Used as `with metric_localcontext(name) as metric:`; counts what happens inside the block."""
    return Metric(name)


def _names() -> list[str]:
    names = ["graph_compilation", "cpu_fallback"]
    if bridge_config.get("PT_HPU_ENABLE_CACHE_METRICS"):
        names.append("recipe_cache")
    return names


def _entries(trigger: str) -> list[dict[str, Any]]:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    return [
        {
            "metric_name": name,
            "triggered_by": trigger,
            "generated_on": now,
            "statistics": dict(metric_global(name).stats()),
        }
        for name in _names()
    ]


def _as_text(entries: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for entry in entries:
        lines += [
            f"Metric name: {entry['metric_name']}",
            f"Triggered by: {entry['triggered_by']}",
            f"Generated on: {entry['generated_on']}",
            "Statistics:",
            *(f"\t{key}: {value}" for key, value in entry["statistics"].items()),
            "",
        ]
    return "\n".join([*lines, ""])


def metrics_dump(file: str, format: str = "json", triggered_by: str = "user") -> None:
    """Writes all metrics to `file` (json or text)."""
    if format not in ("json", "text"):
        raise ValueError(f"format {format!r}: expected json or text")
    entries = _entries(triggered_by)
    content = json.dumps(entries, indent=2) if format == "json" else _as_text(entries)
    Path(file).write_text(content)


def _setting(name: str, default: str) -> str:
    older = os.environ.get("HABANA_PT_" + name)
    return os.environ.get("PT_HPU_" + name, older if older is not None else default)


def _dump_path(file: str) -> str:
    """The path with `-rank<N>` before the extension under a launcher; existing files are kept."""
    rank = os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK"))
    path = Path(file)
    if rank is not None:
        path = path.with_name(f"{path.stem}-rank{rank}{path.suffix}")
    candidate, number = path, 0
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}.{number}")
    return str(candidate)


_log = logging.getLogger("habana_frameworks.torch")
_TRIGGERS = ("process_exit", "mark_step", "metric_change")
_dump_on: dict[str, Callable[[], None]] = {}


def triggered(trigger: str) -> None:
    """Writes the dump file if the user asked for it on this trigger."""
    dump = _dump_on.get(trigger)
    if dump is not None:
        dump()


def install_dump() -> None:
    """Arranges the dumps that PT_HPU_METRICS_FILE asks for."""
    file = _setting("METRICS_FILE", "")
    if not file:
        return
    format = _setting("METRICS_FILE_FORMAT", "json")
    # A program may learn its rank after the import.
    path = functools.cache(lambda: _dump_path(file))
    owner = os.getpid()
    for trigger in _setting("METRICS_DUMP_TRIGGERS", "process_exit").split(","):
        if trigger not in _TRIGGERS:
            raise ValueError(
                f"PT_HPU_METRICS_DUMP_TRIGGERS: {trigger!r}: expected one of {', '.join(_TRIGGERS)}"
            )

        def dump(trigger: str = trigger) -> None:
            if os.getpid() != owner:
                return
            try:
                metrics_dump(path(), format, trigger)
            except OSError as error:
                _dump_on.clear()
                _log.warning("PT_HPU_METRICS_FILE=%s: no metrics are written: %s", file, error)

        _dump_on[trigger] = dump
    atexit.register(triggered, "process_exit")
    records.subscribe(lambda: triggered("metric_change"))
