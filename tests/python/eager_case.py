"""Runs eager calls on hpu with a given PT_HPU_PLACE_ON_CPU, and counts the ways that they take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from habana_frameworks.torch import native

_torch = native.torch_module()

# For tests of the way that a card does not have: a CPU kernel on device memory.
needs_direct_calls = pytest.mark.skipif(
    os.environ.get("EMULATOR_STRICT") == "1", reason="strict mode has no direct calls"
)


@contextmanager
def place_on_cpu(value: str) -> Iterator[None]:
    """Sets PT_HPU_PLACE_ON_CPU in the block: "none" lets no operator run on the host."""
    before = os.environ.get("PT_HPU_PLACE_ON_CPU")
    os.environ["PT_HPU_PLACE_ON_CPU"] = value
    _torch.reload_log_settings()
    try:
        yield
    finally:
        os.environ.pop("PT_HPU_PLACE_ON_CPU")
        if before is not None:
            os.environ["PT_HPU_PLACE_ON_CPU"] = before
        _torch.reload_log_settings()


def ways(name: str) -> tuple[int, int, int]:
    """How many calls of an operator were recipes, direct, and fallbacks, since the last reset."""
    counts = _torch.op_counts().get(name, {})
    return counts.get("recipes", 0), counts.get("direct", 0), counts.get("fallbacks", 0)
