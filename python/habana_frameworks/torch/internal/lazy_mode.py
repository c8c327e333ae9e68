"""PT_HPU_LAZY_MODE, read once: it must be set before the import (guide MODE-3).

0 or unset: eager mode and torch.compile. 1: accepted, and runs as eager mode.
"""

from __future__ import annotations

import functools

from . import bridge_config


@functools.cache
def asked_for() -> bool:
    """True with PT_HPU_LAZY_MODE=1. Raises ImportError for a mode that does not exist."""
    try:
        mode = bridge_config.get("PT_HPU_LAZY_MODE")
    except ValueError as error:
        raise ImportError(f"{error}: 0 (eager and torch.compile) or 1 (lazy)") from None
    if mode not in (0, 1):
        raise ImportError(f"PT_HPU_LAZY_MODE={mode}: expected 0 (eager and torch.compile) or 1")
    return mode == 1
