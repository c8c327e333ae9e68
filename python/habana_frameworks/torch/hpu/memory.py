"""Device memory: allocated, reserved, and their peaks. All numbers are bytes."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from .. import native
from .placement import DeviceArgument, check_device


def memory_stats(device: DeviceArgument = None) -> dict[str, int]:
    """A dictionary of Limit, InUse, MaxInUse, NumAllocs, NumFrees, ActiveAllocs, MaxAllocSize,
    TotalSystemAllocs, TotalSystemFrees, TotalActiveAllocs."""
    check_device(device)
    return dict(native.torch_module().memory_stats())


def memory_allocated(device: DeviceArgument = None) -> int:
    """Bytes in use by tensors."""
    return memory_stats(device)["InUse"]


def max_memory_allocated(device: DeviceArgument = None) -> int:
    """The peak of memory_allocated."""
    return memory_stats(device)["MaxInUse"]


def memory_reserved(device: DeviceArgument = None) -> int:
    """Bytes taken from the device, cached blocks included."""
    check_device(device)
    return int(native.torch_module().memory_reserved())


def max_memory_reserved(device: DeviceArgument = None) -> int:
    """The peak of memory_reserved."""
    check_device(device)
    return int(native.torch_module().max_memory_reserved())


def memory_cached(device: DeviceArgument = None) -> int:
    """Older name of memory_reserved."""
    return memory_reserved(device)


def max_memory_cached(device: DeviceArgument = None) -> int:
    """The limit of the device's memory."""
    return memory_stats(device)["Limit"]


def mem_get_info(device: DeviceArgument = None) -> tuple[int, int]:
    """Returns (free, total)."""
    check_device(device)
    free, total = native.torch_module().mem_get_info()
    return int(free), int(total)


def memory_usage(device: DeviceArgument = None) -> int:
    """The percentage of the device's memory in use."""
    stats = memory_stats(device)
    return round(100 * stats["InUse"] / stats["Limit"]) if stats["Limit"] else 0


def memory_summary(device: DeviceArgument = None) -> str:
    """The values of memory_stats as lines of text."""
    stats = memory_stats(device)
    width = max(map(len, stats))
    return "\n".join(f"{name:<{width}} {value:>20,}" for name, value in stats.items())


def reset_peak_memory_stats(device: DeviceArgument = None) -> None:
    check_device(device)
    native.torch_module().reset_peak_memory_stats()


def reset_max_memory_allocated(device: DeviceArgument = None) -> None:
    """Older name of reset_peak_memory_stats."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: DeviceArgument = None) -> None:
    check_device(device)
    native.torch_module().reset_accumulated_memory_stats()


def empty_cache() -> None:
    """Gives cached blocks back to the device."""
    native.torch_module().empty_cache()


def memory_snapshot(device: DeviceArgument = None) -> list[dict[str, Any]]:
    """The segments taken from the device, each with its blocks, as torch.cuda.memory_snapshot
    describes them."""
    segments: list[dict[str, Any]] = _snapshot(device)["segments"]
    return segments


def _snapshot(device: DeviceArgument = None) -> dict[str, Any]:
    """Returns what PyTorch's memory viewer reads (torch.cuda.memory._snapshot): segments, and
    events since _record_memory_history."""
    check_device(device)
    return dict(native.torch_module().memory_snapshot())


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes a snapshot for https://pytorch.org/memory_viz, or for
    `python -m torch.cuda._memory_viz trace_plot FILE -o trace.html`."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "python",
    max_entries: int = sys.maxsize,
    device: DeviceArgument = None,
) -> None:
    """Records allocations and frees from now on, as torch.cuda.memory._record_memory_history does.

    enabled: "all"; "state" keeps no events, but the stacks of what is allocated; None ends it.
    context: None keeps no stacks. stacks: "python" and "all" both keep Python's frames.
    max_entries: the oldest events beyond it are forgotten.
    """
    check_device(device)
    for name, value, known in (
        ("enabled", enabled, (None, "state", "all")),
        ("context", context, (None, "state", "alloc", "all")),
        ("stacks", stacks, ("python", "all")),
    ):
        if value not in known:
            raise ValueError(f"_record_memory_history: {name}={value!r}; expected one of {known}")
    if max_entries < 0:
        raise ValueError(f"_record_memory_history: max_entries={max_entries} is negative")
    events = None if enabled is None else 0 if enabled == "state" else max_entries
    native.torch_module().record_memory_history(events, context is not None)
