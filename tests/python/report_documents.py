"""Documents of a report made by hand."""

from __future__ import annotations

from typing import Any

from habana_frameworks.torch.dynamo.records.operators import OperatorCalls
from habana_frameworks.torch.report.document import (
    Difference,
    Document,
    Drawing,
    EagerSegment,
    Frame,
    Graph,
    GraphBreak,
    KernelRun,
    Lookup,
    Memory,
    MemorySample,
    Node,
    Peak,
    RecipeTimeline,
    Recompile,
    Stage,
)

STAGES = [Stage("Dynamo", 100.0, "tracing"), Stage("compile", 25.5, "waiting")]


def drawing(count: int = 3, name: str = "relu") -> Drawing:
    """A drawing of a chain."""
    nodes = [Node(i, name, "f32[8,64]", "compute", "", "model.py:3 in f") for i in range(count)]
    return Drawing("as captured", nodes, [(i, i + 1) for i in range(count - 1)], count)


def graph(name: str = "graph_0", **changes: Any) -> Graph:
    values: dict[str, Any] = {
        "name": name,
        "source": "Model (model.py:3)",
        "origin": "compiled",
        "reason": "",
        "nodes": 3,
        "recipes": 1,
        "eager_nodes": 0,
        "front_end_key": "ab" * 32,
        "content_key": "cd" * 32,
        "inputs": ["float32[8, 64]{64, 1}@hpu"],
        "more_inputs": 0,
        "stages": STAGES,
        "first_output_ms": 125.5,
        "lookup": Lookup(False, "Compiled.", "graph_9", [Difference("input 0", "[8]", "[9]")]),
        "drawings": [drawing()],
    }
    return Graph(**(values | changes))


def document(text: str = "demo", **changes: Any) -> Document:
    """text: inserted wherever a user's text can be."""
    kernel = KernelRun([text, "add/1"], "mme", 0.1, 0.5, 4096, 1_000_000, 0.25, 1.5)
    values: dict[str, Any] = {
        "title": text,
        "created": "2026-01-02T03:04:05+00:00",
        "device": "emulated gaudi2",
        "versions": {"torch": text},
        "recorded": True,
        "duration_ms": 2500.0,
        "first_output_ms": 125.5,
        "stages": STAGES,
        "graphs": [graph(text, source=text, drawings=[drawing(3, text)]), graph(origin="store")],
        "breaks": [GraphBreak(text, text, [text], [Frame(text, 7, text, text)], 2)],
        "recompiles": [Recompile(text, text, "0/1", [text], text, 12.0)],
        "eager": [EagerSegment(text, text, text, text, text, 3)],
        "operators": [OperatorCalls(text, 12, 3, 1, 2, 8.5, [text])],
        "recipes": [RecipeTimeline(text, text, 2, 2.0, 1.0, [kernel], 0.125, 4096, 1_000_000)],
        "peak": Peak(2e11, 4e11, 1e10),
        "memory": Memory(
            [MemorySample(0, 0, 0), MemorySample(5, 1 << 20, 2 << 20)], 2.0, 1 << 20, 1 << 30
        ),
        "notes": [text],
    }
    return Document(**(values | changes))
