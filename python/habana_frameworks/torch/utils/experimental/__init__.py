"""Facts about the device that programs ask for beside torch.hpu: its type, addresses, handles."""

from __future__ import annotations

import enum

import torch

from ... import hpu, native
from ...internal.notices import without_effect
from .detect_recompilation import const_shape_dataloader as const_shape_dataloader
from .detect_recompilation import data_dynamicity as data_dynamicity
from .detect_recompilation import detect_recompilation_auto_model as detect_recompilation_auto_model


class synDeviceType(enum.IntEnum):
    """Device types with the numbers of the C API."""

    synDeviceGaudi = 2
    synDeviceGaudi2 = 4
    synDeviceGaudi3 = 5


def _get_device_type() -> int:
    """The device's number in synDeviceType. This does not acquire a device."""
    kind: str = native.torch_module().device_kind()
    device_type = synDeviceType.__members__.get("synDevice" + kind.capitalize())
    return int(kind.removeprefix("device")) if device_type is None else device_type


def _is_fp16_supported() -> bool:
    """True except for the first Gaudi."""
    return _get_device_type() != synDeviceType.synDeviceGaudi


def _data_ptr(t: torch.Tensor) -> int:
    """The device address of the first element; 0 for a tensor without elements or on another
    device."""
    if not isinstance(t, torch.Tensor) or t.device.type != "hpu" or t.numel() == 0:
        return 0
    return int(native.torch_module().data_address(t))


def _compute_stream() -> int:
    """The library's handle of the default stream; 0 without a device."""
    if not hpu.is_available():
        return 0
    module = native.torch_module()
    return int(module.stream_handle(module.default_stream()))


def _record_param(
    name: str,
    t_start: int,
    t_size: int,
    is_param: bool = False,
    is_grad: bool = False,
    is_optim_state: bool = False,
) -> None:
    """Would name a range of device memory in memory reports, which do not exist; warns once."""
    without_effect("_record_param()", "there are no reports of device memory by name")


def _record_params(
    model: torch.nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    force_model_update: bool = False,
) -> None:
    """Like _record_param, for a model and an optimizer."""
    without_effect("_record_params()", "there are no reports of device memory by name")


def _set_profiler_tracer_memory(device_id: int) -> int:
    """Always 0: the profiler's buffer belongs to the library."""
    without_effect("_set_profiler_tracer_memory()", "the library keeps the profiler's buffer")
    return 0


def _set_scale_attributes(is_hw_aligned: bool, scale_method: int) -> None:
    """Would choose how scales of fp8 are patched into compiled recipes; warns once."""
    without_effect("_set_scale_attributes()", "a scale that is a tensor is an input of a program")


def _set_is_dynamic_quantization(is_dynamic: bool) -> None:
    """Would prepare recipes for scales that are computed at every call; warns once if it is on."""
    if is_dynamic:
        without_effect(
            "_set_is_dynamic_quantization(True)",
            "a scale that is a tensor is an input of a program",
        )


def _reset_device_memory() -> None:
    """Gives memory that no tensor uses back to the device; for tests."""
    if hpu.is_available():
        hpu.synchronize()
        hpu.empty_cache()
