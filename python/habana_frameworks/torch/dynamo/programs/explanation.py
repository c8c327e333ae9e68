"""Explains why a graph had to be captured or compiled: the factors of its keys are compared with
those of the nearest other keys."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

from ...internal.asked_errors import AskedForError
from ..records.records import Difference, GraphRecord, nearest, report
from .service import NoProgram, service

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Explanation:
    """Both keys of a graph, the factors that they consist of, and how the nearest other graph
    differs."""

    front_end_key: str
    factors: list[tuple[str, str]]
    content_key: str
    content_factors: list[tuple[str, str]]
    nearest_key: str
    differences: list[Difference]

    def __str__(self) -> str:
        lines = [f"front-end key {self.front_end_key}"]
        lines += [f"  {name} = {value}" for name, value in self.factors]
        if self.content_key:
            lines.append(f"content key {self.content_key}")
            lines += [f"  {name} = {value}" for name, value in self.content_factors]
        if self.nearest_key:
            lines.append(f"nearest front-end key {self.nearest_key} differs in")
            lines += [f"  {d.factor}: {d.ours!r}, there {d.theirs!r}" for d in self.differences]
        return "\n".join(lines)


class FrozenMiss(AskedForError):
    """Option frozen is on and a graph has no stored program; the text explains the miss."""


def miss_text(record: GraphRecord, source: str, answer: str) -> str:
    """Says which keys were looked up without success, how the nearest stored key differs, and what
    to do. answer: the answer of the server."""
    key = record.front_end_key
    looked_for = f"front-end key {key}" if key else f"no front-end key ({record.reason})"
    explanation = explain(record) if key else None
    if explanation is not None and explanation.nearest_key:
        # The digest of a graph mostly summarises what other factors say.
        told = [
            f"{d.factor}: {d.ours!r}, there {d.theirs!r}"
            for d in explanation.differences
            if not _DIGEST.fullmatch(d.ours)
        ]
        told = told or [f"the {d.factor}" for d in explanation.differences]
        nearest_one = (
            f"the nearest key is {explanation.nearest_key[:16]} and differs in {'; '.join(told)}"
        )
    else:
        nearest_one = "no other key is stored"
    return (
        f"{record.name}{f' ({source})' if source else ''} has no stored program, and option frozen "
        f"(HPU_FROZEN) forbids compiling one: {looked_for}; {nearest_one}. Compile it in a run "
        f"without that option, or bring it with hpu-compile import. The server: {answer}"
    )


def explain(record: GraphRecord | None = None) -> Explanation:
    """Explains one graph of the report, by default the last one that has a key. The nearest key is
    looked for among the graphs of this process, the store, and the servers that the daemon asks."""
    graphs = [graph for graph in report().graphs if graph.front_end_key]
    if record is None:
        if not graphs:
            raise LookupError("no graph of this process has a key yet")
        record = graphs[-1]
    others = {graph.front_end_key: graph.factors for graph in graphs}
    with contextlib.suppress(NoProgram):
        others |= service.stored_keys()
    others.pop(record.front_end_key, None)
    key, differences = nearest(record.factors, others) or ("", [])
    return Explanation(
        record.front_end_key,
        record.factors,
        record.content_key,
        record.content_factors,
        key,
        differences,
    )
