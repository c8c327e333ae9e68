"""Records what the device does and when, per launch, per kernel and per engine.

    from habana_frameworks.torch.utils import profiler
    with profiler.profile() as profile:
        for _ in range(10):
            compiled(inputs)
    print(profile.report())
    profile.export_chrome_trace("trace.json")

On the emulated device all times are timings of this host's CPUs; they say nothing about a card.
torch.profiler shows the same kernels with ProfilerActivity.HPU, beside PyTorch's own operators.
HABANA_PROFILE=1 traces a whole process without a change to it. docs/profiling.md has the rest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ... import native
from .profile import Profile as Profile
from .report import Report as Report


@contextlib.contextmanager
def profile(tasks: bool = False) -> Iterator[Profile]:
    """Traces the block. The profile is complete after it; only one trace can run at a time.

    tasks: kernels run one task after the other, on one thread, and Kernel.task_ns says how long
    each task took. Only the emulated device can do this.
    """
    module = native.torch_module()
    result = Profile()
    if tasks:
        module.trace_tasks(True)
    try:
        module.start_trace()
        try:
            yield result
        finally:
            result.take(module.stop_trace())
    finally:
        if tasks:
            module.trace_tasks(False)


def _setup_profiler() -> None:
    """Loads the device's library, so that _start_profiler does not spend time on it."""
    native.torch_module().trace_clock()


def _start_profiler() -> None:
    """Starts a trace that _stop_profiler ends."""
    native.torch_module().start_trace()


def _stop_profiler() -> None:
    """Ends the trace and writes it to EMULATOR_TRACE_FILE or default_profiling_<process>.json."""
    result = Profile()
    result.take(native.torch_module().stop_trace())
    default = f"default_profiling_{os.getpid()}.json"
    result.export_chrome_trace(os.environ.get("EMULATOR_TRACE_FILE") or default)
