"""PyTorch's own decompositions."""

from __future__ import annotations

from torch._decomp import decomposition_table as decomposition_table
