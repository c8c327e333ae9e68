"""torch.hpu: the device's Python interface.

A process has one device, index 0. It is acquired at its first use, not by the import.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from .. import native
from ..internal.lazy_mode import is_on as is_lazy  # noqa: F401  DeepSpeed asks here
from ..torch_compat.constants import constant_in_graphs
from . import autocast_lists as autocast_lists
from . import clipping as clipping
from . import graphs as graphs
from . import metrics as metrics
from . import printing as printing
from . import sharing as sharing
from . import torch_profiler as torch_profiler
from .graphs import HPUGraph as HPUGraph
from .graphs import ModuleCacher as ModuleCacher
from .graphs import TensorPacker as TensorPacker
from .graphs import graph as graph
from .graphs import graph_pool_handle as graph_pool_handle
from .graphs import is_current_stream_capturing as is_current_stream_capturing
from .graphs import make_graphed_callables as make_graphed_callables
from .graphs import wrap_in_hpu_graph as wrap_in_hpu_graph
from .graphs import wrap_in_hpu_graph_func as wrap_in_hpu_graph_func
from .memory import empty_cache as empty_cache
from .memory import max_memory_allocated as max_memory_allocated
from .memory import max_memory_cached as max_memory_cached
from .memory import max_memory_reserved as max_memory_reserved
from .memory import mem_get_info as mem_get_info
from .memory import memory_allocated as memory_allocated
from .memory import memory_cached as memory_cached
from .memory import memory_reserved as memory_reserved
from .memory import memory_snapshot as memory_snapshot
from .memory import memory_stats as memory_stats
from .memory import memory_summary as memory_summary
from .memory import memory_usage as memory_usage
from .memory import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from .memory import reset_max_memory_allocated as reset_max_memory_allocated
from .memory import reset_peak_memory_stats as reset_peak_memory_stats
from .placement import DeviceArgument as DeviceArgument
from .placement import check_device
from .placement import current_device as current_device
from .placement import device as device
from .placement import device_of as device_of
from .placement import set_device as set_device
from .random import default_generators as default_generators
from .random import get_rng_state as get_rng_state
from .random import get_rng_state_all as get_rng_state_all
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import manual_seed_all as manual_seed_all
from .random import seed as seed
from .random import seed_all as seed_all
from .random import set_rng_ctx as set_rng_ctx
from .random import set_rng_state as set_rng_state
from .random import set_rng_state_all as set_rng_state_all
from .random import unset_rng_ctx as unset_rng_ctx
from .streams import Event as Event
from .streams import Stream as Stream
from .streams import StreamContext as StreamContext
from .streams import current_stream as current_stream
from .streams import default_stream as default_stream
from .streams import get_stream_info as get_stream_info
from .streams import record_stream as record_stream
from .streams import set_stream as set_stream
from .streams import stream as stream
from .switches import disable_const_section_serialization as disable_const_section_serialization
from .switches import disable_dynamic_shape as disable_dynamic_shape
from .switches import disable_inference_mode as disable_inference_mode
from .switches import disable_matmul3d_2d_reshape as disable_matmul3d_2d_reshape
from .switches import disable_optim_output_sif as disable_optim_output_sif
from .switches import disable_quantization as disable_quantization
from .switches import enable_const_section_serialization as enable_const_section_serialization
from .switches import enable_dynamic_shape as enable_dynamic_shape
from .switches import enable_inference_mode as enable_inference_mode
from .switches import enable_matmul3d_2d_reshape as enable_matmul3d_2d_reshape
from .switches import enable_optim_output_sif as enable_optim_output_sif
from .switches import enable_quantization as enable_quantization
from .switches import enable_recompute_sdp as enable_recompute_sdp
from .switches import get_dynamic_shape_status as get_dynamic_shape_status
from .switches import get_sync_debug_mode as get_sync_debug_mode
from .switches import recompute_sdp_enabled as recompute_sdp_enabled
from .switches import sdp_kernel as sdp_kernel
from .switches import set_sync_debug_mode as set_sync_debug_mode

# torch.utils.checkpoint asks for this, and keeps no random state for a backend without it.
_initialized = True


def init() -> None:
    """Acquires the device now; otherwise its first use does."""
    native.torch_module().acquire()


def _lazy_init() -> None:
    init()


def is_initialized() -> bool:
    """True once the device is acquired."""
    return bool(native.torch_module().is_acquired())


def _is_in_bad_fork() -> bool:
    """True in a child that was forked after the parent acquired the device, where the device is
    unusable."""
    return bool(native.torch_module().is_in_bad_fork())


@constant_in_graphs
def is_available() -> bool:
    """True if a device, real or emulated, is available. Never raises."""
    return bool(native.torch_module().is_available())


@constant_in_graphs
def device_count() -> int:
    """The number of devices of this host. A process holds one of them, which is hpu:0 to it."""
    return int(native.torch_module().device_count())


def synchronize(device: DeviceArgument = None) -> None:
    """Waits for all queued work."""
    check_device(device)
    if torch.compiler.is_compiling():
        torch.accelerator.synchronize()  # Dynamo knows this function
    else:
        native.torch_module().synchronize()


def get_device_name(device: DeviceArgument = None) -> str:
    """The device's name in the driver library, e.g. "GAUDI2"."""
    check_device(device)
    return str(native.torch_module().device_name())


def get_device_capability(device: DeviceArgument = None) -> str:
    """The driver's version text."""
    check_device(device)
    return str(native.torch_module().driver_version())


def get_device_properties(device: DeviceArgument = None) -> str:
    """The properties as "(sramBaseAddress=..., dramBaseAddress=..., ...)"."""
    check_device(device)
    properties = native.torch_module().device_properties()
    return "(" + ", ".join(f"{name}={value}" for name, value in properties.items()) + ")"


def can_device_access_peer(device: DeviceArgument, peer_device: DeviceArgument) -> bool:
    """Always False: there is no second device in a process."""
    check_device(device)
    check_device(peer_device)
    return False


def get_arch_list() -> list[str]:
    return [get_device_name()] if is_available() else []


def get_gencode_flags() -> str:
    return ""


def is_bf16_supported() -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def set_autocast_hpu_enabled(enabled: bool) -> None:
    torch.set_autocast_enabled("hpu", enabled)


def is_autocast_hpu_enabled() -> bool:
    return torch.is_autocast_enabled("hpu")


def set_autocast_hpu_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype("hpu", dtype)


def get_autocast_hpu_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("hpu")


def setDeterministic(val: bool) -> None:
    """Deprecated name of torch.use_deterministic_algorithms."""
    torch.use_deterministic_algorithms(val)


def getDeterministic() -> bool:
    """Deprecated name of torch.are_deterministic_algorithms_enabled."""
    return torch.are_deterministic_algorithms_enabled()


def set_num_threads(count: int) -> None:
    """Sets the compute threads of the emulated device; a real one ignores it."""
    native.torch_module().set_num_threads(count)


_LEGACY_TYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


def __getattr__(name: str) -> Any:
    """The typed tensor constructors: torch.hpu.FloatTensor([1, 2]) or FloatTensor(2, 3). And the
    module itself as torch.hpu.hpu, where lightning-habana looks for the memory's state."""
    if name == "hpu":
        return sys.modules[__name__]
    dtype = _LEGACY_TYPES.get(name)
    if dtype is None:
        hint = graphs.ABSENT.get(name)
        raise AttributeError(f"torch.hpu has no attribute {name!r}" + (f": {hint}" if hint else ""))

    def construct(*args: Any) -> torch.Tensor:
        if args and all(isinstance(a, int) for a in args):
            return torch.empty(args, dtype=dtype, device="hpu")
        if not args:
            return torch.empty(0, dtype=dtype, device="hpu")
        return torch.tensor(args[0], dtype=dtype, device="hpu")

    construct.__name__ = name
    construct.element_type = dtype  # type: ignore[attr-defined]
    return construct
