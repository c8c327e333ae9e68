"""What happened to every captured graph of this process, for reports, metrics and logs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class GraphRecord:
    """One captured graph (one concrete shape of it). Times in milliseconds."""

    name: str
    # compiled, coalesced (by another process's request), store, memory, or eager
    origin: str = "eager"
    # Why it, or its lookup in the store, was skipped.
    reason: str = ""
    key: str = ""
    cacheable: bool = True
    nodes: int = 0
    recipes: int = 0
    eager_nodes: int = 0
    key_ms: float = 0.0
    fetch_ms: float = 0.0
    capture_ms: float = 0.0
    compile_ms: float = 0.0
    load_ms: float = 0.0
    aliased_calls: int = 0
    eager_steps: list[str] = field(default_factory=list)
    factors: list[tuple[str, str]] = field(default_factory=list, repr=False)

    def lines(self) -> list[str]:
        """Where its program came from and what runs eagerly, for people."""
        if self.origin == "eager":
            return [f"{self.name}: eager: {self.reason}"]
        found = "hit" if self.origin in ("store", "memory") else "miss"
        return [
            f"{self.name}: {found}, {self.origin}, key {self.key[:12]}, {self.recipes} recipes, "
            f"{self.nodes} nodes ({self.eager_nodes} eager); key {self.key_ms:.1f} ms, "
            f"fetch {self.fetch_ms:.1f} ms, capture {self.capture_ms:.1f} ms, "
            f"compile {self.compile_ms:.1f} ms, load {self.load_ms:.1f} ms",
            *(f"  eager: {step.removeprefix('eager ')}" for step in self.eager_steps),
        ]


@dataclass(frozen=True)
class Report:
    """Everything that hpu_backend did in this process."""

    graphs: list[GraphRecord]

    def count(self, *origins: str) -> int:
        return sum(graph.origin in origins for graph in self.graphs)

    @property
    def compilations(self) -> int:
        return self.count("compiled", "coalesced")

    @property
    def hits(self) -> int:
        return self.count("store", "memory")

    @property
    def recipes(self) -> int:
        return sum(graph.recipes for graph in self.graphs)

    @property
    def eager_segments(self) -> int:
        """Eager ops inside programs, and graphs that run eagerly as a whole."""
        return sum(graph.eager_nodes for graph in self.graphs) + self.count("eager")

    @property
    def eager_reasons(self) -> dict[str, int]:
        reasons = Counter(g.reason for g in self.graphs if g.origin == "eager")
        for graph in self.graphs:
            reasons.update(graph.eager_steps)
        return dict(reasons)

    def as_dict(self) -> dict[str, Any]:
        return {
            "graphs": [asdict(graph) for graph in self.graphs],
            "compilations": self.compilations,
            "hits": self.hits,
            "recipes": self.recipes,
            "eager_segments": self.eager_segments,
            "eager_reasons": self.eager_reasons,
        }

    def __str__(self) -> str:
        lines = [
            f"{len(self.graphs)} graphs, {self.recipes} recipes, {self.compilations} compiled, "
            f"{self.hits} from the store or memory, {self.eager_segments} eager segments"
        ]
        for graph in self.graphs:
            lines += [f"  {line}" for line in graph.lines()]
        return "\n".join(lines)


_lock = threading.Lock()
_records: list[GraphRecord] = []
_listeners: list[Callable[[], None]] = []


def add(record: GraphRecord) -> None:
    with _lock:
        _records.append(record)
        listeners = list(_listeners)
    for listener in listeners:
        listener()


def subscribe(listener: Callable[[], None]) -> None:
    """Calls `listener` after every new record."""
    with _lock:
        _listeners.append(listener)


def report() -> Report:
    """A snapshot of this process's graphs, in the order they were compiled."""
    with _lock:
        return Report(list(_records))


def reset() -> None:
    """Forgets all graphs; programs stay loaded."""
    with _lock:
        _records.clear()


@dataclass(frozen=True)
class Difference:
    """One factor in which two keys differ."""

    factor: str
    ours: str
    theirs: str


def difference(ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> list[Difference]:
    """The factors that differ, in order; "" where one side lacks the factor."""
    left, right = dict(ours), dict(theirs)
    names = list(dict.fromkeys([*left, *right]))
    return [
        Difference(name, left.get(name, ""), right.get(name, ""))
        for name in names
        if left.get(name) != right.get(name)
    ]


def nearest(
    factors: list[tuple[str, str]], candidates: dict[str, list[tuple[str, str]]]
) -> tuple[str, list[Difference]] | None:
    """The candidate key with the fewest differing factors."""
    if not candidates:
        return None
    best = min(candidates, key=lambda key: len(difference(factors, candidates[key])))
    return best, difference(factors, candidates[best])
