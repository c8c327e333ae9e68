"""AOTAutograd's default way to split a joint graph (compile_backend/partition_fn.py)."""

from __future__ import annotations

from torch._functorch.partitioners import default_partition as default_partition
