"""Activation checkpointing of layers in fp8."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ....torch_compat.graph_task import runs_backward
from .fp8 import is_fp8_enabled

_recompute = False


@contextlib.contextmanager
def activation_checkpointing(enabled: bool = True) -> Iterator[None]:
    """Layers in the block, or in the function that it decorates, run a second time in the backward:
    with the scales of the first time, and without measuring."""
    global _recompute
    before = _recompute
    _recompute = enabled
    try:
        yield
    finally:
        _recompute = before


def is_fp8_activation_recompute_enabled() -> bool:
    return _recompute and is_fp8_enabled()


def in_fp8_activation_recompute_phase() -> bool:
    """Whether this is the second time."""
    return is_fp8_activation_recompute_enabled() and runs_backward()
