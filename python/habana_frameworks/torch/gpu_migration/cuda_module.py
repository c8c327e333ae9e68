"""torch.cuda is torch.hpu by another name."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .. import hpu
from ..hpu import placement
from ..torch_compat import features
from ..torch_compat.replaced import original, replace
from . import log

# The function of torch.hpu has the same name and takes the same arguments.
_SAME = (
    *("can_device_access_peer", "current_device", "current_stream", "default_stream"),
    *("device_count", "empty_cache", "get_arch_list", "get_device_name", "get_gencode_flags"),
    *("get_rng_state", "get_rng_state_all", "get_sync_debug_mode", "graph_pool_handle", "init"),
    *("initial_seed", "is_available", "is_current_stream_capturing", "is_initialized"),
    *("make_graphed_callables", "manual_seed", "manual_seed_all", "max_memory_allocated"),
    *("max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated"),
    *("memory_cached", "memory_reserved", "memory_snapshot", "memory_summary", "memory_usage"),
    *("reset_accumulated_memory_stats", "reset_peak_memory_stats", "seed", "seed_all"),
    *("set_device", "set_rng_state", "set_rng_state_all", "set_stream", "set_sync_debug_mode"),
    *("stream", "synchronize"),
)
_CLASSES = ("Event", "Stream", "StreamContext", "device", "device_of", "graph")
_TENSORS = (
    *("BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor"),
    *("HalfTensor", "IntTensor", "LongTensor", "ShortTensor"),
)
# Each has a reason, which its error names.
_WITHOUT_COUNTERPART = {
    "cudart": "there is no CUDA runtime",
    "current_blas_handle": "there is no cuBLAS",
    "ExternalStream": "streams of CUDA libraries do not exist",
    "CUDAPluggableAllocator": "the device's memory has an allocator of its own",
    "caching_allocator_alloc": "the device's memory has an allocator of its own",
    "caching_allocator_delete": "the device's memory has an allocator of its own",
    "change_current_allocator": "the device's memory has an allocator of its own",
    "list_gpu_processes": "a device has one process",
    "utilization": "the device does not measure it",
    "temperature": "the device does not measure it",
    "power_draw": "the device does not measure it",
    "clock_rate": "the device does not measure it",
}
_PLACES = ("torch.cuda.memory", "torch.cuda.random", "torch.cuda.streams", "torch.cuda.graphs")


@dataclass(frozen=True)
class DeviceProperties:
    """The fields of torch.cuda.get_device_properties that programs read, but compute capability."""

    name: str
    total_memory: int
    multi_processor_count: int
    major: int = 0
    minor: int = 0


def _properties(device: Any = None) -> DeviceProperties:
    from ..native import torch_module

    _, total = hpu.mem_get_info(device)
    engines = int(torch_module().device_properties()["tpcEnabledMask"]).bit_count()
    return DeviceProperties(hpu.get_device_name(device), total, engines)


def _capability(device: Any = None) -> tuple[int, int]:
    """(0, 0), which is older than every GPU: programs that choose kernels by it choose none."""
    placement.check_device(device)
    return 0, 0


def _memory_stats(device: Any = None) -> dict[str, int]:
    """torch.hpu's numbers, and those that have a name of CUDA's."""
    stats = hpu.memory_stats(device)
    return stats | {
        "allocated_bytes.all.current": stats["InUse"],
        "allocated_bytes.all.peak": stats["MaxInUse"],
        "allocation.all.current": stats["ActiveAllocs"],
        "allocation.all.allocated": stats["NumAllocs"],
        "allocation.all.freed": stats["NumFrees"],
        "reserved_bytes.all.current": hpu.memory_reserved(device),
        "reserved_bytes.all.peak": hpu.max_memory_reserved(device),
    }


def _nothing(*_: Any, **__: Any) -> None:
    """A call that concerns the tools of a GPU."""


@contextlib.contextmanager
def _no_range(*_: Any, **__: Any) -> Iterator[None]:
    yield


def _bf16_is_supported(including_emulation: bool = True) -> bool:
    return True


def _refuse(name: str, reason: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        log.write("hpu_mismatch", f"torch.cuda.{name}()", "an error")
        raise RuntimeError(f"torch.cuda.{name} has no counterpart on hpu: {reason}")

    refused.__name__ = name
    return refused


def _logged(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if not log.LEVEL:
        return function

    @functools.wraps(function)
    def logged(*args: Any, **kwargs: Any) -> Any:
        given = f"{log.arguments(args, kwargs)}, " if args or kwargs else ""
        log.write("hpu_match", f"torch.cuda.{name}({given})", f"torch.hpu.{name}()")
        return function(*args, **kwargs)

    return logged


def _set(name: str, value: Any) -> None:
    import importlib

    setattr(torch.cuda, name, value)
    for place in _PLACES:
        module = importlib.import_module(place)
        if hasattr(module, name):
            setattr(module, name, value)


def _cuda_is_not_there() -> None:
    raise RuntimeError(
        "this call uses a CUDA device, which GPU migration does not map to hpu: name the device "
        '"hpu" (docs/gpu_migration.md lists what is mapped)'
    )


def install() -> None:
    placement.also_accepted.add("cuda")
    for name in _SAME:
        _set(name, _logged(name, getattr(hpu, name)))
    for name in _CLASSES:
        _set(name, getattr(hpu, name))
    for name in _TENSORS:
        _set(name, getattr(hpu, name))
    for name, reason in _WITHOUT_COUNTERPART.items():
        _set(name, _refuse(name, reason))
    _set("CUDAGraph", hpu.HPUGraph)
    _set("get_device_properties", _logged("get_device_properties", _properties))
    _set("get_device_capability", _logged("get_device_capability", _capability))
    _set("memory_stats", _logged("memory_stats", _memory_stats))
    for name in ("_dump_snapshot", "_record_memory_history", "_snapshot"):
        setattr(torch.cuda.memory, name, _logged(f"memory.{name}", getattr(hpu.memory, name)))
    _set("reset_max_memory_allocated", hpu.reset_peak_memory_stats)
    _set("reset_max_memory_cached", hpu.reset_peak_memory_stats)
    _set("is_bf16_supported", _bf16_is_supported)
    _set("ipc_collect", _nothing)
    _set("default_generators", hpu.default_generators())
    for name in ("mark", "range_push", "range_pop", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, _nothing)
    torch.cuda.nvtx.range = _no_range
    torch.cuda.profiler.start = torch.cuda.profiler.stop = _nothing
    torch.cuda.profiler.profile = _no_range

    def refuse_cuda() -> None:
        original("torch.cuda._lazy_init")
        replace("torch.cuda._lazy_init", _cuda_is_not_there)

    features.enable(features.MIGRATION, refuse_cuda)
