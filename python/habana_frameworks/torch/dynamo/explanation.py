"""Why a graph had to be captured or compiled: its keys' factors beside the nearest other ones."""

from __future__ import annotations

from dataclasses import dataclass

from .records import Difference, GraphRecord, nearest, report


@dataclass(frozen=True)
class Explanation:
    """Both keys of a graph, what they are made of, and how the nearest other graph differs."""

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


def explain(record: GraphRecord | None = None) -> Explanation:
    """Of one graph of the report, by default the last one that has a key."""
    graphs = [graph for graph in report().graphs if graph.front_end_key]
    if record is None:
        if not graphs:
            raise LookupError("no graph of this process has a key yet")
        record = graphs[-1]
    others = {g.front_end_key: g.factors for g in graphs if g.front_end_key != record.front_end_key}
    key, differences = nearest(record.factors, others) or ("", [])
    return Explanation(
        record.front_end_key,
        record.factors,
        record.content_key,
        record.content_factors,
        key,
        differences,
    )
