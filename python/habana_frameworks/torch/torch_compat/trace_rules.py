"""The modules that Dynamo calls and does not trace into; importing it imports Dynamo."""

from __future__ import annotations

from torch._dynamo.trace_rules import add as call_without_tracing

__all__ = ["call_without_tracing"]
