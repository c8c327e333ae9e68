"""PyTorch's structured log of a trace (TORCH_TRACE)."""

from __future__ import annotations

from torch._logging._internal import trace_log as trace_log
from torch._logging._internal import trace_structured as trace_structured


def has_readers() -> bool:
    """Whether entries are written anywhere. Without TORCH_TRACE, PyTorch's own handler has no
    folder; it removes itself at its first entry."""
    return any(getattr(handler, "root_dir", "") is not None for handler in trace_log.handlers)
