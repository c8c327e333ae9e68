"""Older place of distributed.hccl (guide DEV-7)."""

from __future__ import annotations

from .distributed.hccl import initialize_distributed_hpu as initialize_distributed_hpu
