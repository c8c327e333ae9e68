"""Dynamo calls functions of torch.hpu.random and does not trace into them, as with torch.cuda's.

Code that saves and restores the generators around a call may do so where no tensor can be traced
(torch.testing's freeze_rng_state does).
"""

from __future__ import annotations

from ...torch_compat.trace_rules import call_without_tracing


def register() -> None:
    """May be called again."""
    call_without_tracing("habana_frameworks.torch.hpu.random")
