"""Tensors without elements, on which graphs are captured."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from torch._subclasses.fake_tensor import (
    DataDependentOutputException as DataDependentOutputException,
)
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException as DynamicOutputShapeException,
)
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@contextmanager
def errors_without_log() -> Iterator[None]:
    """In the block PyTorch raises the errors of shape functions without logging them: they are the
    caller's errors, and the caller gets them."""
    before = _LOG.disabled
    _LOG.disabled = True
    try:
        yield
    finally:
        _LOG.disabled = before
