"""Debugging aids: loggers and counters."""

from __future__ import annotations

from ... import native
from .logger import Logger as Logger
from .logger import enable_logging as enable_logging


def _get_fallback_op_count() -> dict[str, int]:
    """Eager ops that ran on the CPU, by name."""
    return dict(native.torch_module().fallback_counts())
