"""Records of what happened to every captured graph of this process, for reports, metrics and
logs."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from . import operators
from .operators import OperatorCalls


@dataclass
class GraphRecord:
    """One captured graph (one concrete shape of it). Times in milliseconds."""

    name: str
    # The user's class or function with the place where its code begins (graph_label.py), and
    # Dynamo's id of the compilation.
    source: str = ""
    compile_id: str = ""
    # compiled, coalesced (joined the compilation of another request), store, memory, or eager
    origin: str = "eager"
    # False: Dynamo did not trace it in this process (start/).
    traced: bool = True
    # True: it was compiled for a size that no call had yet (dynamic_graph.py).
    ahead: bool = False
    # For a part that AOTAutograd made (partitioned/): why our own capture refused the whole graph.
    parted_because: str = ""
    # Why the graph, or its lookup in the store, was skipped.
    reason: str = ""
    # Why the stored program was compiled anew.
    unusable: str = ""
    # The key by which this process knew the graph, "" if it had none, and the key of the program's
    # content.
    front_end_key: str = ""
    content_key: str = ""
    cacheable: bool = True
    nodes: int = 0
    recipes: int = 0
    program_bytes: int = 0
    eager_nodes: int = 0
    key_ms: float = 0.0
    fetch_ms: float = 0.0
    capture_ms: float = 0.0
    # How long the compilation took when it was done, and how long this process waited for the
    # request.
    compile_ms: float = 0.0
    request_ms: float = 0.0
    load_ms: float = 0.0
    # Ops without a rule in the compile server that PyTorch's own decompositions took apart, where
    # this process captured the graph.
    decomposed: list[str] = field(default_factory=list)
    # Calls that ran eagerly, by reason: their inputs were not for the program.
    eager_calls: dict[str, int] = field(default_factory=dict)
    eager_steps: list[str] = field(default_factory=list)
    factors: list[tuple[str, str]] = field(default_factory=list, repr=False)
    content_factors: list[tuple[str, str]] = field(default_factory=list, repr=False)
    # The operators of the captured graph, and in a second list those that depend on a gradient
    # (capture/listing.py); None if nobody read them when it was captured.
    targets: list[list[str]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # The parts that AOTAutograd made of the graph, if it partitioned it: the report lists them
        # in place of the graph.
        self.parts: list[GraphRecord] = []

    def programs(self) -> list[GraphRecord]:
        """The graph itself, or its parts if it was partitioned."""
        return self.parts or [self]

    def compile_s(self) -> float:
        """The seconds that this process has spent so far on its programs."""
        return sum(p.capture_ms + p.request_ms for p in self.programs()) * 1e-3

    def lines(self) -> list[str]:
        """Says for people where the program came from and what runs eagerly."""
        if self.origin == "eager":
            return [f"{self.name}: eager: {self.reason}", *self._parted()]
        found = "hit" if self.origin in ("store", "memory") else "miss"
        return [
            f"{self.name}: {found}, {self.origin}, {'' if self.traced else 'not traced, '}"
            f"{'ahead of its first call, ' if self.ahead else ''}"
            f"key {self.front_end_key[:12] or 'none'}, "
            f"program {self.content_key[:12]}, {self.recipes} recipes, "
            f"{self.nodes} nodes ({self.eager_nodes} eager); key {self.key_ms:.1f} ms, "
            f"fetch {self.fetch_ms:.1f} ms, capture {self.capture_ms:.1f} ms, "
            f"compile {self.compile_ms:.1f} ms, load {self.load_ms:.1f} ms",
            *self._parted(),
            *([f"  compiled anew: {self.unusable}"] if self.unusable else []),
            *(f"  eager: {step.removeprefix('eager ')}" for step in self.eager_steps),
            *(f"  taken apart by PyTorch's Python: {op}" for op in self.decomposed),
        ]

    def _parted(self) -> list[str]:
        if not self.parted_because:
            return []
        return [f"  a part that AOTAutograd made, for {self.parted_because}"]


@dataclass(frozen=True)
class Report:
    """The graphs of hpu_backend in this process; the oldest records go when there are too many."""

    graphs: list[GraphRecord]
    dropped_graphs: int = 0
    # programs of dynamic graphs that were dropped and are made again when they are called
    dropped_shapes: int = 0
    # those called outside of graphs
    operators: list[OperatorCalls] = field(default_factory=list)

    def count(self, *origins: str) -> int:
        return sum(graph.origin in origins for graph in self.graphs)

    @property
    def compilations(self) -> int:
        return self.count("compiled")

    @property
    def joined(self) -> int:
        """The number of graphs whose compilation another request had begun."""
        return self.count("coalesced")

    @property
    def recompilations(self) -> int:
        """The number of graphs whose stored program was unusable."""
        return sum(bool(graph.unusable) for graph in self.graphs)

    @property
    def hits(self) -> int:
        return self.count("store", "memory")

    @property
    def recipes(self) -> int:
        return sum(graph.recipes for graph in self.graphs)

    @property
    def eager_segments(self) -> int:
        """The number of eager ops inside programs, plus the graphs that run eagerly as a whole."""
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
            "dropped_graphs": self.dropped_graphs,
            "dropped_shapes": self.dropped_shapes,
            "compilations": self.compilations,
            "joined": self.joined,
            "recompilations": self.recompilations,
            "hits": self.hits,
            "recipes": self.recipes,
            "eager_segments": self.eager_segments,
            "eager_reasons": self.eager_reasons,
            "operators": [asdict(operator) for operator in self.operators],
        }

    def _repr_html_(self) -> str | None:
        """The page for notebooks, with what the newest recording() has seen."""
        return _page_of(self) if _page_of is not None else None

    def __str__(self) -> str:
        lines = [
            f"{len(self.graphs)} graphs, {self.recipes} recipes, {self.compilations} compiled, "
            f"{self.joined} compiled by others at the same time, "
            f"{self.hits} from the store or memory, {self.eager_segments} eager segments"
        ]
        if self.dropped_graphs or self.dropped_shapes:
            lines.append(
                f"  not listed: {self.dropped_graphs} older graphs; "
                f"dropped: {self.dropped_shapes} programs of dynamic graphs"
            )
        for graph in self.graphs:
            lines += [f"  {line}" for line in graph.lines()]
        if self.operators:
            lines.append("  operators outside of graphs:")
            lines += [f"    {operator}" for operator in self.operators[:MAX_OPERATORS]]
        if (left_out := len(self.operators) - MAX_OPERATORS) > 0:
            lines.append(f"    and {left_out} operators with fewer calls")
        return "\n".join(lines)


_page_of: Callable[[Report], str] | None = None


def show_pages_with(page_of: Callable[[Report], str]) -> None:
    """Sets the function that makes the HTML which a notebook shows of a report."""
    global _page_of
    _page_of = page_of


# The report lists at most this many graphs, the newest ones.
MAX_GRAPHS = 4096
# Its text lists at most this many operators, those with the most calls.
MAX_OPERATORS = 32

_lock = threading.Lock()
# Guarded by _lock.
_records: deque[GraphRecord] = deque()
_dropped_graphs = 0
_dropped_shapes = 0
_resets = 0
_operators_before: operators.Counts = {}
_listeners: list[Callable[[], None]] = []


_collected = threading.local()


@contextlib.contextmanager
def collect() -> Iterator[list[GraphRecord]]:
    """The records that this thread adds in the block."""
    _collected.records = []
    try:
        yield _collected.records
    finally:
        _collected.records = None


def add(record: GraphRecord) -> None:
    global _dropped_graphs
    here = getattr(_collected, "records", None)
    if here is not None:
        here.append(record)
    with _lock:
        _records.append(record)
        if len(_records) > MAX_GRAPHS:
            _records.popleft()
            _dropped_graphs += 1
        listeners = list(_listeners)
    for listener in listeners:
        listener()


def count_dropped_shape() -> None:
    global _dropped_shapes
    with _lock:
        _dropped_shapes += 1


def graph_count() -> int:
    """The number of graphs so far, including those that are no longer listed."""
    with _lock:
        return len(_records) + _dropped_graphs


def position() -> tuple[int, int]:
    """The position of the next graph: how often the report was reset, and graph_count()."""
    with _lock:
        return _resets, len(_records) + _dropped_graphs


def since(start: tuple[int, int]) -> Report:
    """The graphs from a position on that are still known; after a reset all of them."""
    resets, count = start
    with _lock:
        skipped = max(0, count - _dropped_graphs) if resets == _resets else 0
        return Report(list(_records)[skipped:], _dropped_graphs, _dropped_shapes)


def subscribe(listener: Callable[[], None]) -> None:
    """Calls `listener` after every new record."""
    with _lock:
        _listeners.append(listener)


def report() -> Report:
    """A snapshot of this process's graphs, in the order they were compiled."""
    with _lock:
        graphs = Report(list(_records), _dropped_graphs, _dropped_shapes)
        before = _operators_before
    return replace(graphs, operators=operators.since(before))


def reset() -> None:
    """Forgets all graphs and calls; programs stay loaded."""
    global _dropped_graphs, _dropped_shapes, _operators_before, _resets
    before = operators.counts()
    with _lock:
        _resets += 1
        _records.clear()
        _operators_before = before
        _dropped_graphs = _dropped_shapes = 0


@dataclass(frozen=True)
class Difference:
    """One factor in which two keys differ."""

    factor: str
    ours: str
    theirs: str


def difference(ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> list[Difference]:
    """The factors that differ, in order. A side that lacks the factor has ""."""
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
