"""Device memory: allocated, reserved, and their peaks. All numbers are bytes."""

from __future__ import annotations

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
