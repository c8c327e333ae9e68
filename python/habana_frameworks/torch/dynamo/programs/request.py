"""One Dynamo graph that is to be compiled, as the hook carries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx

from ..capture.inputs import GraphInputs, attribute, follows_gradients
from ..records.records import GraphRecord

# AOTAutograd's graphs have these names.
FORWARD = "forward"
BACKWARD = "backward"
INFERENCE = "inference"

Settings = dict[str, bool | int | float | str]


@dataclass(frozen=True)
class Part:
    """Names one of AOTAutograd's graphs (partitioned/)."""

    name: str  # FORWARD, BACKWARD or INFERENCE
    reason: str  # why our own capture did not take the whole graph


@dataclass(frozen=True)
class Request:
    """One Dynamo graph to compile."""

    module: torch.fx.GraphModule
    inputs: GraphInputs
    settings: Settings
    name: str
    source: str
    compile_id: str
    part: Part | None = None  # None: the whole Dynamo graph
    # its sizes used up their seconds of compiling (dynamic_graph.py), therefore it is frozen
    spent: bool = False

    def attributes(self) -> list[torch.Tensor]:
        return [attribute(self.module, path) for path in self.inputs.attributes]

    def requires_grad(self, example_inputs: Sequence[Any]) -> list[bool] | None:
        """Flags by placeholder, then by attribute; None if nothing is to be differentiated."""
        if not follows_gradients(self.module):
            return None
        flags = [
            isinstance(value, torch.Tensor) and value.requires_grad
            for value in (*example_inputs, *self.attributes())
        ]
        return flags if any(flags) else None

    def with_settings(self, **changed: bool | int | float | str) -> Request:
        return replace(self, settings={**self.settings, **changed})

    def new_record(self) -> GraphRecord:
        record = GraphRecord(self.name, self.source, self.compile_id)
        if self.part is not None:
            record.parted_because = self.part.reason
        return record
