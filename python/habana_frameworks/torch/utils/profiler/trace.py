"""The records of a trace, and its launches, kernels and copies."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_log = logging.getLogger("habana_frameworks.torch.utils.profiler")

ENGINES = ("mme", "tpc", "dma")


@dataclass(frozen=True)
class Interval:
    """An activity that took time; nanoseconds of one clock."""

    name: str
    start_ns: int
    duration_ns: int


@dataclass(frozen=True)
class Launch(Interval):
    """One run of a recipe."""

    recipe: str
    work: int  # the number that its kernels have as well
    kernels: int
    threads: int  # number of compute threads
    cpu_ns: int  # CPU time of the whole process during the launch


@dataclass(frozen=True)
class Kernel(Interval):
    """One run of a kernel. Its name lists the nodes that it covers, joined by "+"."""

    recipe: str
    work: int
    index: int  # in the recipe; -1 if it rearranged an operand before the first kernel
    engine: str  # mme, tpc or dma
    tasks: int  # independent pieces that the compute threads share
    grain: int  # the least number of tasks that go to one thread together
    bytes: int  # bytes read and written
    flops: int  # operations; a multiply-add is two
    factors: str  # the type of the operands that its products multiply: f32 or bf16
    busy_ns: int  # the time in which threads ran its tasks, summed over the threads
    # With profile(tasks=True): the CPU time of each piece of `grain` tasks, or of each group of
    # pieces where there are more than 1,024.
    task_ns: list[int]

    @property
    def nodes(self) -> list[str]:
        return self.name.split("+")


@dataclass(frozen=True)
class Copy(Interval):
    """One queued copy or fill."""

    bytes: int


class Trace:
    """The records of a trace. It is empty until the trace has ended."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def take(self, records: list[dict[str, Any]]) -> None:
        """Fills the trace with the records of _torch.stop_trace()."""
        self.records = records
        for record in records:
            if record["name"] == "dropped_records":
                _log.warning("the trace was too long: %s records", record["args"]["name"])

    def _intervals(self, *categories: str) -> list[dict[str, Any]]:
        return [r for r in self.records if r["ph"] == "X" and r["cat"] in categories]

    @property
    def launches(self) -> list[Launch]:
        """The launches in the order in which they began."""
        return [
            Launch(
                r["name"],
                r["start_ns"],
                r["duration_ns"],
                r["recipe"],
                r["args"].get("work", 0),
                r["args"]["kernels"],
                r["args"].get("threads", 1),
                r["args"].get("cpu_ns", 0),
            )
            for r in self._intervals("launch")
        ]

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels in the order in which they began."""
        return [
            Kernel(
                r["name"],
                r["start_ns"],
                r["duration_ns"],
                r["recipe"],
                r["args"].get("work", 0),
                r["args"].get("kernel", -1),
                r["cat"],
                r["args"]["tasks"],
                r["args"].get("grain", 1),
                r["args"]["bytes"],
                r["args"]["flops"],
                r["args"].get("factors", "f32"),
                r["args"].get("busy_ns", r["duration_ns"]),
                [int(ns) for ns in r["args"].get("task_ns", "").split(",") if ns],
            )
            for r in self._intervals(*ENGINES)
        ]

    @property
    def copies(self) -> list[Copy]:
        """Queued copies and fills. Copies that the host makes itself are in `host`."""
        return [
            Copy(r["name"], r["start_ns"], r["duration_ns"], r["args"]["bytes"])
            for r in self._intervals("copy")
        ]

    @property
    def host(self) -> list[Interval]:
        """Program calls, compilations, copies and calls of the Synapse API."""
        return [
            Interval(r["name"], r["start_ns"], r["duration_ns"]) for r in self._intervals("host")
        ]

    def export_chrome_trace(self, path: str | Path) -> None:
        """Writes the trace for Perfetto (ui.perfetto.dev) or chrome://tracing."""
        content = {"displayTimeUnit": "ns", "traceEvents": [_as_json(r) for r in self.records]}
        Path(path).write_text(json.dumps(content))


def _as_json(record: dict[str, Any]) -> dict[str, Any]:
    """A record in the Trace Event Format, where times are microseconds."""
    event = {key: record[key] for key in ("ph", "name", "pid", "tid")}
    event["args"] = dict(record["args"])
    if record["ph"] == "M":
        return event
    event |= {"cat": record["cat"], "ts": record["start_ns"] / 1000}
    if record["ph"] == "X":
        event["dur"] = record["duration_ns"] / 1000
    else:
        event["id"] = record["id"]
        if record["ph"] == "f":
            event["bp"] = "e"  # the arrow ends at the interval around it
    if record["recipe"]:
        event["args"] = {"graph name": record["recipe"], **event["args"]}
    return event
