"""PT_HPU_LAZY_MODE, read once: it must be set before the import (guide MODE-3).

0 or unset: eager mode and torch.compile. 1: lazy mode, in which operators on hpu are recorded and
run when an element is needed or at mark_step() (docs/lazy.md).
"""

from __future__ import annotations

import functools

from . import bridge_config

# A loop without mark_step() would otherwise record until the memory is full, and then compile for
# minutes. A training step of BERT-base with AdamW has 2,100 calls.
_MOST_CALLS = 10_000
_LIMIT = "PT_HPU_MAX_COMPOUND_OP_SIZE"


@functools.cache
def is_on() -> bool:
    """True with PT_HPU_LAZY_MODE=1. Raises ImportError for a mode that does not exist."""
    try:
        mode = bridge_config.get("PT_HPU_LAZY_MODE")
    except ValueError as error:
        raise ImportError(f"{error}: 0 (eager and torch.compile) or 1 (lazy)") from None
    if mode not in (0, 1):
        raise ImportError(f"PT_HPU_LAZY_MODE={mode}: expected 0 (eager and torch.compile) or 1")
    return mode == 1


def most_calls() -> int:
    """The limit of the calls of a recording. Raises ImportError for one that makes no sense."""
    try:
        limit = int(bridge_config.get(_LIMIT))
    except ValueError as error:
        raise ImportError(str(error)) from None
    if limit < 1:
        raise ImportError(f"{_LIMIT}={limit}: expected the most operators of a graph, at least 1")
    return _MOST_CALLS if limit == bridge_config.default(_LIMIT) else limit
