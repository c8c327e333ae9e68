"""Intervals of host work in profiles: torch.profiler's, traces of the device, TORCH_TRACE."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from ... import native
from . import structured_trace


@contextlib.contextmanager
def host_range(name: str) -> Iterator[None]:
    """Shows the block as `name`. Use it for work that takes milliseconds, not for calls of a
    program."""
    module = native.torch_module()
    start_ns = module.trace_clock() if module.host_tracing() else None
    with torch.autograd.profiler.record_function(name), structured_trace.stage(name):
        yield
    if start_ns is not None:
        module.add_host_interval(name, start_ns, module.trace_clock())
