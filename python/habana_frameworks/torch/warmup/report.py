"""The report of a warm-up: a row per shape, as text, JSON and an HTML page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .buckets import Shape
from .page import to_html

# The possible results of a shape. compiled: the server compiled it, for this warm-up or for another
# one that asked at the same time. hit: all programs were there. failed: there was an error, or a
# graph runs eagerly. left: the warm-up ended before it came to this shape.
RESULTS = ("compiled", "hit", "failed", "left")


@dataclass
class Row:
    """One shape, or a graph of a recorded run, which has no shape. Times are in milliseconds."""

    shape: Shape | None
    result: str = "left"
    name: str = ""  # the name of the manifest's entry, or of the recorded graph
    key: str = ""  # the recorded graph's front-end key
    graphs: int = 0
    programs: list[str] = field(default_factory=list)  # the content keys of its programs
    compile_ms: float = 0.0  # on the server, for all graphs
    run_ms: float = 0.0  # the call that succeeded: launches, and for a hit tracing too
    launched: bool = False
    error: str = ""


@dataclass(frozen=True)
class Progress:
    """The shapes so far, and the seconds that the rest will take; None while there is nothing to
    estimate them from."""

    done: int
    total: int
    hits: int
    compiled: int
    failed: int
    seconds_left: float | None

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f", {self.seconds_left:.0f} s left"
        return (
            f"{self.done} of {self.total}: {self.hits} hits, {self.compiled} compiled, "
            f"{self.failed} failed{left}"
        )


@dataclass(frozen=True)
class Report:
    """The result of a warm-up. stopped: why shapes were left; "" if none was."""

    rows: list[Row]
    seconds: float = 0.0
    stopped: str = ""

    @property
    def hits(self) -> int:
        return self._count("hit")

    @property
    def compiled(self) -> int:
        return self._count("compiled")

    @property
    def failed(self) -> int:
        return self._count("failed")

    @property
    def left(self) -> int:
        return self._count("left")

    @property
    def complete(self) -> bool:
        """True if every shape is compiled or was a hit."""
        return self.failed == 0 and self.left == 0

    def _count(self, result: str) -> int:
        return sum(row.result == result for row in self.rows)

    def summary(self) -> str:
        """A summary of one line."""
        text = (
            f"{len(self.rows)} shapes in {self.seconds:.1f} s: {self.hits} hits, "
            f"{self.compiled} compiled, {self.failed} failed, {self.left} left"
        )
        return f"{text}; stopped: {self.stopped}" if self.stopped else text

    def table(self) -> str:
        """One line per shape, and the summary last. Long errors are cut; as_dict() has them
        whole."""
        cells = [_HEAD, *(_cells(row) for row in self.rows)]
        cells = [[*line[:-1], _cut(line[-1])] for line in cells]
        widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ]
        return "\n".join([*lines, self.summary()]) + "\n"

    def as_dict(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "stopped": self.stopped,
            "hits": self.hits,
            "compiled": self.compiled,
            "failed": self.failed,
            "left": self.left,
            "rows": [
                asdict(row) | {"shape": row.shape and row.shape._asdict()} for row in self.rows
            ],
        }

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1)

    def to_html(self) -> str:
        """A page that needs no other file."""
        return to_html(
            self.summary(),
            self.complete,
            _HEAD,
            [_cells(row) for row in self.rows],
            [row.result for row in self.rows],
        )


_HEAD = ("shape", "result", "graphs", "compiled in", "first call", "programs", "what went wrong")


_ERROR_LENGTH = 120


def _cut(text: str) -> str:
    return text if len(text) <= _ERROR_LENGTH else text[: _ERROR_LENGTH - 3] + "..."


def _cells(row: Row) -> Sequence[str]:
    return (
        " ".join(str(part) for part in (row.name, row.shape) if part),
        row.result,
        str(row.graphs),
        f"{row.compile_ms:.0f} ms" if row.result == "compiled" else "",
        f"{row.run_ms:.1f} ms" if row.launched else "",
        " ".join(key[:12] for key in row.programs),
        row.error,
    )
