"""The device interface that Dynamo, Inductor and libraries ask for with
torch._dynamo.device_interface.get_interface_for_device("hpu")."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from .. import native
from ..torch_compat.device_interface import (
    DeviceInterface,
    caching_worker_current_devices,
    caching_worker_device_properties,
    register_interface_for_device,
)
from . import memory, placement, streams
from .placement import DeviceArgument, check_device


@dataclass(frozen=True)
class DeviceProperties:
    """The device's properties, under the names that CUDA's properties have."""

    name: str
    type: str
    total_memory: int
    multi_processor_count: int
    sram_size: int
    driver_version: str


class HpuInterface(DeviceInterface):
    device = placement.device
    Event = streams.Event
    Stream = streams.Stream

    class Worker:
        """The interface in a worker process, forked from one that has the device: it returns what
        the parent noted."""

        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices["hpu"] = check_device(device)

        @staticmethod
        def current_device() -> int:
            return caching_worker_current_devices.get("hpu", 0)

        @staticmethod
        def get_device_properties(device: DeviceArgument = None) -> DeviceProperties:
            index = check_device(device)
            known = caching_worker_device_properties
            if "hpu" not in known:
                known["hpu"] = [_properties()]
            found: DeviceProperties = known["hpu"][index]
            return found

    @staticmethod
    def current_device() -> int:
        return placement.current_device()

    @staticmethod
    def set_device(device: DeviceArgument) -> None:
        placement.set_device(device)

    @staticmethod
    def exchange_device(device: int) -> int:
        """Makes another device the current one and returns the one before."""
        return placement._exchange_device(device)

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        """Like exchange_device; a negative number changes nothing."""
        return placement._exchange_device(device)

    @staticmethod
    def device_count() -> int:
        """Those of this process, among which Dynamo chooses: one, or none."""
        return int(native.torch_module().is_available())

    @staticmethod
    def is_available() -> bool:
        return bool(native.torch_module().is_available())

    @staticmethod
    def stream(stream: torch.Stream | None) -> AbstractContextManager[torch.Stream | None]:
        """Context manager: sets the current stream inside the block."""
        return streams.stream(stream)

    @staticmethod
    def current_stream(device: DeviceArgument = None) -> torch.Stream:
        return streams.current_stream(device)

    @staticmethod
    def set_stream(stream: torch.Stream) -> None:
        streams.set_stream(stream)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        streams.set_stream(streams.Stream(device_index, stream_id=stream_id))

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """The synStreamHandle of the current stream."""
        check_device(device_idx)
        module = native.torch_module()
        return int(module.stream_handle(module.current_stream()))

    @staticmethod
    def synchronize(device: DeviceArgument = None) -> None:
        check_device(device)
        native.torch_module().synchronize()

    @staticmethod
    def exposes_streams() -> bool:
        return True

    @staticmethod
    def get_multi_processor_count(device: DeviceArgument = None) -> int:
        return HpuInterface.Worker.get_device_properties(device).multi_processor_count

    @staticmethod
    def get_compute_capability(device: DeviceArgument = None) -> str:
        """The kind of device, on which code for it depends."""
        check_device(device)
        return str(native.torch_module().device_kind())

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return dtype in native.torch_module().element_types()

    @staticmethod
    def memory_allocated(device: DeviceArgument = None) -> int:
        return memory.memory_allocated(device)

    @staticmethod
    def is_gpu() -> bool:
        """Whether Inductor generates code for it as for a GPU."""
        return False

    @staticmethod
    def get_cpp_device_options(aot_mode: bool, compile_only: bool) -> None:
        """Inductor compiles no C++ for hpu."""

    @staticmethod
    def get_cache_system_info() -> None:
        """Nothing that Inductor generates depends on the device."""

    @staticmethod
    def is_triton_capable(device: DeviceArgument = None) -> bool:
        return False

    @staticmethod
    def raise_if_triton_unavailable(device: DeviceArgument = None) -> None:
        raise RuntimeError("Triton has no code generator for hpu: use backend='hpu_backend'")


def _properties() -> DeviceProperties:
    module = native.torch_module()
    name = str(module.device_name())  # this acquires the device, which the rest asks
    info = module.device_properties()
    _, total = memory.mem_get_info()
    return DeviceProperties(
        name,
        "hpu",
        total,
        int(info["tpcEnabledMask"]).bit_count(),
        int(info["sramSize"]),
        str(module.driver_version()),
    )


def register() -> None:
    """May be called again."""
    register_interface_for_device("hpu", HpuInterface)
    register_interface_for_device("hpu:0", HpuInterface)
