"""The content of a report: one document, the same for the page and for --json.

Times are milliseconds, sizes are bytes. `None` means that it was not measured.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..dynamo.records.operators import OperatorCalls

VERSION = 2


@dataclass(frozen=True)
class Stage:
    """A part of the time to the first output, for all graphs or for one."""

    name: str
    ms: float
    meaning: str


@dataclass(frozen=True)
class Difference:
    factor: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Lookup:
    """Why a graph's program was found, or had to be made."""

    hit: bool
    sentence: str
    nearest: str = ""  # the known graph that it was compared with
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class Node:
    """A node of a drawn graph."""

    id: int
    op: str
    type: str  # the types of its results, "f32[8,64]"
    kind: str  # input, product, movement, eager, compute or output
    detail: str = ""  # attributes, weights
    source: str = ""  # "model.py:12 in forward"


@dataclass(frozen=True)
class Drawing:
    """A graph at one stage of its compilation."""

    stage: str  # as captured, or after all passes
    nodes: list[Node]
    edges: list[tuple[int, int]]  # pairs of node ids
    total_nodes: int  # larger than the number of listed nodes if the graph is too large to be drawn


@dataclass(frozen=True)
class Graph:
    """One captured graph for one concrete shape."""

    name: str
    source: str
    origin: str
    reason: str
    nodes: int
    recipes: int
    eager_nodes: int
    front_end_key: str
    content_key: str
    inputs: list[str]  # "float32[8, 64]{64, 1}@hpu"
    more_inputs: int  # inputs that are not listed
    stages: list[Stage]
    first_output_ms: float
    lookup: Lookup
    drawings: list[Drawing] = field(default_factory=list)
    no_drawing: str = ""  # why there is no drawing


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str
    code: str


@dataclass(frozen=True)
class GraphBreak:
    title: str
    explanation: str
    hints: list[str]
    stack: list[Frame]  # the user's frames, outermost first
    count: int


@dataclass(frozen=True)
class Recompile:
    function: str
    place: str  # "model.py:12"
    compile_id: str
    guards: list[str]  # guards that failed, one per earlier compilation
    cure: str
    ms: float


@dataclass(frozen=True)
class EagerSegment:
    """A graph, or a part of one, that ran eagerly."""

    graph: str
    what: str
    reason: str
    cure: str
    source: str = ""
    count: int = 1


@dataclass(frozen=True)
class KernelRun:
    """A kernel of one launch; start counts from the launch's beginning."""

    nodes: list[str]
    engine: str
    start_ms: float
    ms: float
    bytes: int
    flops: int
    peak_share: float | None
    bandwidth_share: float | None


@dataclass(frozen=True)
class RecipeTimeline:
    """The shortest launch of a recipe, kernel by kernel."""

    recipe: str
    graph: str
    launches: int
    total_ms: float
    ms: float
    kernels: list[KernelRun]
    peak_share: float | None  # for the whole launch
    bytes: int
    flops: int
    more_kernels: int = 0  # kernels that are not listed


@dataclass(frozen=True)
class MemorySample:
    at_ms: float  # since the recording began
    in_use: int
    reserved: int


@dataclass(frozen=True)
class Memory:
    samples: list[MemorySample]
    interval_ms: float
    peak_in_use: int
    limit: int


@dataclass(frozen=True)
class Peak:
    flops_per_second: float  # for factors in f32
    bf16_flops_per_second: float
    bytes_per_second: float


@dataclass(frozen=True)
class Document:
    title: str
    created: str  # ISO 8601
    device: str
    versions: dict[str, str]
    recorded: bool  # False: only the data that every process keeps
    duration_ms: float | None  # duration of the recording
    first_output_ms: float
    stages: list[Stage]
    graphs: list[Graph]
    breaks: list[GraphBreak]
    recompiles: list[Recompile]
    eager: list[EagerSegment]
    operators: list[OperatorCalls]  # those called outside of graphs
    recipes: list[RecipeTimeline]
    peak: Peak | None
    memory: Memory | None
    notes: list[str]  # limits that were reached
    version: int = VERSION

    @property
    def hits(self) -> int:
        return sum(graph.lookup.hit for graph in self.graphs)

    @property
    def misses(self) -> int:
        return sum(not graph.lookup.hit and graph.origin != "eager" for graph in self.graphs)

    def summary(self) -> str:
        """A summary of one line."""
        return (
            f"{len(self.graphs)} graphs ({self.hits} hits, {self.misses} misses), "
            f"{len(self.breaks)} graph breaks, {len(self.recompiles)} recompilations, "
            f"{sum(segment.count for segment in self.eager)} eager segments, "
            f"{self.first_output_ms:.0f} ms to first output"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"hits": self.hits, "misses": self.misses}
