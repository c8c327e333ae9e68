"""Why a graph had to be compiled: its key's factors beside the nearest stored key's."""

from __future__ import annotations

from dataclasses import dataclass

from .records import Difference, GraphRecord, nearest, report


@dataclass(frozen=True)
class Explanation:
    """One key, what it is made of, and how the nearest other key differs."""

    key: str
    factors: list[tuple[str, str]]
    nearest_key: str
    differences: list[Difference]

    def __str__(self) -> str:
        lines = [f"key {self.key}"] + [f"  {name} = {value}" for name, value in self.factors]
        if self.nearest_key:
            lines.append(f"nearest key {self.nearest_key} differs in")
            lines += [f"  {d.factor}: {d.ours!r}, there {d.theirs!r}" for d in self.differences]
        return "\n".join(lines)


def explain(record: GraphRecord | None = None) -> Explanation:
    """Of one graph of the report, by default the last one that has a key."""
    graphs = [graph for graph in report().graphs if graph.key]
    if record is None:
        if not graphs:
            raise LookupError("no graph of this process has a key yet")
        record = graphs[-1]
    others = {g.key: g.factors for g in graphs if g.key != record.key}
    found = nearest(record.factors, others)
    key, differences = found if found else ("", [])
    return Explanation(record.key, record.factors, key, differences)
