"""FxGraphAnalyzer: which operators the graphs of hpu_backend have, and which of them run
eagerly."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch

from ...dynamo.records import op_watch


@dataclass
class OpCount:
    """Calls of one operator in one graph."""

    graph_count: int = 0  # in recipes
    eager_count: int = 0

    def __str__(self) -> str:
        return f"{{graph_count = {self.graph_count}, eager_count = {self.eager_count}}}"


Counts = dict[str, OpCount]


class FxGraphAnalyzer:
    """Used as `with FxGraphAnalyzer(reset_dynamo=True) as analyzer: compiled(x)`.

    get_ops_summary() has an entry for each graph that was prepared in the block, and one more for
    each backward: OpCount by operator, such as "torch.ops.aten.add.Tensor". It does not matter
    whether programs are compiled or come from the store. Functions that were compiled before the
    block are not prepared again; reset_dynamo forgets them. capture_non_hpu_output: also counts
    calls whose results are not on hpu; graphs without anything on hpu have empty entries otherwise.
    """

    OpCount = OpCount

    def __init__(self, reset_dynamo: bool = False, capture_non_hpu_output: bool = False) -> None:
        self.reset_dynamo = reset_dynamo
        self.capture_non_hpu_output = capture_non_hpu_output
        self.graphs: list[Counts] = []
        self.partition_num = 0
        self._watching = contextlib.ExitStack()

    def __enter__(self) -> FxGraphAnalyzer:
        self._watching.enter_context(op_watch.watched(self._read))
        if self.reset_dynamo:
            torch.compiler.reset()
        return self

    def __exit__(self, *_: object) -> None:
        self._watching.close()

    def _read(self, parts: list[op_watch.Operators], recipes: int) -> None:
        self.partition_num += recipes
        for part in parts:
            counts: Counts = {}
            for name, calls in part.in_recipes.items():
                counts.setdefault(name, OpCount()).graph_count += calls
            eager = part.eager
            if self.capture_non_hpu_output:
                eager = eager + part.eager_elsewhere
            for name, calls in eager.items():
                counts.setdefault(name, OpCount()).eager_count += calls
            self.graphs.append(counts)

    def get_ops_summary(self) -> list[Counts]:
        """Calls by operator for each graph."""
        return self.graphs

    def get_partition_num(self) -> int:
        """The number of recipes of these graphs."""
        return self.partition_num
