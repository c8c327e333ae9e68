"""Keeps what became of every frame that could start without tracing: the frames of this process,
and in a file the latest ones of this user's processes, among which a miss looks for the nearest."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from ..records.records import Difference, difference
from . import files

_log = logging.getLogger("habana_frameworks.torch.dynamo")

# When the journal has this many bytes, its older half goes.
MAX_BYTES = 1 << 20
_MAX_IN_MEMORY = 1024


_imported = time.time_ns()


def _run() -> str:
    return f"{os.getpid()}-{_imported}"


@dataclass
class Outcome:
    """The result for one frame."""

    function: str
    key: str
    reason: str  # why it was traced; "" if it was not
    not_kept: str  # why its trace left no start; "" if it did, or if there was no trace
    load_ms: float = 0.0
    time: float = field(default_factory=time.time)
    process: int = field(default_factory=os.getpid)
    # the process, distinct from an earlier one with the same process id
    run: str = field(default_factory=_run)
    factors: list[tuple[str, str]] = field(default_factory=list, repr=False)

    @staticmethod
    def of(
        code: Any, key: str, factors: list[tuple[str, str]], reason: str, not_kept: str
    ) -> Outcome:
        label = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        return Outcome(label, key, reason, not_kept, factors=factors)

    def line(self) -> str:
        if not self.reason:
            return f"{self.function}: started without tracing, {self.load_ms:.0f} ms"
        kept = f"; no start was kept: {self.not_kept}" if self.not_kept else ""
        return f"{self.function}: traced: {self.reason}{kept}"


_lock = threading.Lock()
_outcomes: list[Outcome] = []  # guarded by _lock


def add(outcome: Outcome) -> None:
    with _lock:
        _outcomes.append(outcome)
        del _outcomes[:-_MAX_IN_MEMORY]
    _log.info("%s", outcome.line())
    with contextlib.suppress(OSError, files.NoFolder):
        files.append_line("journal", json.dumps(asdict(outcome)), MAX_BYTES)


def outcomes() -> list[Outcome]:
    """The outcomes of this process, in order."""
    with _lock:
        return list(_outcomes)


def reset() -> None:
    with _lock:
        _outcomes.clear()


def stored() -> list[Outcome]:
    """The outcomes of this user's processes, the oldest first."""
    found = []
    for line in files.lines("journal"):
        with contextlib.suppress(TypeError, ValueError):
            outcome = Outcome(**json.loads(line))
            outcome.factors = [(str(n), str(v)) for n, v in outcome.factors]
            found.append(outcome)
    return found


def nearest(factors: list[tuple[str, str]], others: list[Outcome]) -> list[Difference]:
    """The differences to the nearest kept start of the same function; among equally near ones, the
    newest counts."""
    name = dict(factors).get("function", "").partition(" ")[0]
    same = [
        difference(factors, o.factors)
        for o in reversed(others)
        if not o.not_kept and dict(o.factors).get("function", "").partition(" ")[0] == name
    ]
    return min(same, key=len, default=[])


def nothing_stored(factors: list[tuple[str, str]]) -> str:
    """Why no stored start has these factors, for people."""
    differences: list[Difference] = []
    with contextlib.suppress(OSError, files.NoFolder):
        differences = nearest(factors, stored())
    if not differences:
        return "nothing is stored for this function"
    return "what is stored differs in " + "; ".join(
        f"{d.factor}: {d.ours!r}, there {d.theirs!r}" for d in differences
    )
