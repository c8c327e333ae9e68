"""Nested containers of values."""

from __future__ import annotations

from typing import Any

from torch.utils._pytree import SUPPORTED_NODES
from torch.utils._pytree import tree_flatten as tree_flatten
from torch.utils._pytree import tree_leaves as tree_leaves
from torch.utils._pytree import tree_map_only as tree_map_only
from torch.utils._pytree import tree_unflatten as tree_unflatten


def node_of(value: Any) -> Any:
    """How PyTorch takes a container of this type apart and makes it (flatten_fn, unflatten_fn);
    None for other values."""
    return SUPPORTED_NODES.get(type(value))
