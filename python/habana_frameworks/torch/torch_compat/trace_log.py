"""PyTorch's structured log of a trace (TORCH_TRACE)."""

from __future__ import annotations

from torch._logging._internal import trace_log as trace_log
from torch._logging._internal import trace_structured as trace_structured
