"""Rules by which DTensors spread operators over ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from torch.distributed.tensor import DTensor

if TYPE_CHECKING:
    from .ops import OpOverload


def rules_depend_on(keyword: str, operators: Iterable[OpOverload]) -> None:
    """Lets DTensor ask for the rules of operators again when a tensor that is passed by keyword is
    spread in another way; by itself it looks at positional arguments only."""
    known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
    for operator in operators:
        known[operator].static_kwargkey = [keyword]
