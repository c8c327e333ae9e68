"""The tensors of a graph during its capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .wire import meta_of


@dataclass(frozen=True)
class TensorValue:
    """A tensor of the graph during the capture: its value id and a fake tensor with its
    metadata."""

    id: int
    fake: torch.Tensor


class Signature:
    """A hashable description of a node's call; equal signatures make equal ATen calls."""

    def __init__(self) -> None:
        self.tensors: list[TensorValue] = []
        self._positions: dict[int, int] = {}

    def add(self, value: Any) -> Any:
        if isinstance(value, TensorValue):
            position = self._positions.get(value.id)
            if position is None:
                position = self._positions[value.id] = len(self.tensors)
                self.tensors.append(value)
            fake = value.fake
            return (position, fake.device.type, *meta_of(fake))
        if isinstance(value, (list, tuple)):
            return (type(value), *map(self.add, value))
        if isinstance(value, dict):
            return (dict, *((k, self.add(v)) for k, v in value.items()))
        if isinstance(value, slice):
            return (slice, self.add(value.start), self.add(value.stop), self.add(value.step))
        if isinstance(value, float):
            return (float, value.hex())
        return (type(value), value)


def map_tensors(value: Any) -> Any:
    """Replaces TensorValues by their fake tensors."""
    if isinstance(value, TensorValue):
        return value.fake
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(map_tensors(v) for v in value)
    if isinstance(value, dict):
        return {k: map_tensors(v) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(map_tensors(value.start), map_tensors(value.stop), map_tensors(value.step))
    return value
