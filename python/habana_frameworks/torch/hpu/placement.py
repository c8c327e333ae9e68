"""The device of a call. A process has one, index 0; programs of several ranks name theirs by the
rank, so every index below the number of the host's devices means the process's own."""

from __future__ import annotations

from typing import Any

import torch

from .. import native

DeviceArgument = torch.device | str | int | None
# Types of devices that stand for hpu in the functions of torch.hpu; gpu_migration adds one.
also_accepted: set[str] = set()


def check_device(value: DeviceArgument) -> int:
    """The index of a device argument; None is the current device. Refuses other devices."""
    if value is None:
        return 0
    if isinstance(value, str):
        if value.partition(":")[0] == "habana":
            raise ValueError(f'device "{value}": the device is called "hpu" now')
        value = torch.device(value)
    if isinstance(value, torch.device):
        if value.type != "hpu" and value.type not in also_accepted:
            raise ValueError(f"expected an hpu device, got {value}")
        value = 0 if value.index is None else value.index
    if not isinstance(value, int):
        kind = type(value).__name__
        raise TypeError(f"expected a device, its name or its index, got {value!r} ({kind})")
    if value not in (0, -1):
        count = native.torch_module().device_count()
        if not 0 <= value < count:
            raise ValueError(f"hpu:{value}: this host has {count} hpu devices")
    return 0


def current_device() -> int:
    """Always 0."""
    return 0


def set_device(device: DeviceArgument) -> None:
    """Checks the argument; the one device is always the current one."""
    check_device(device)


class device:
    """Context manager: sets the current device inside the block."""

    def __init__(self, device: Any) -> None:
        self.idx = check_device(device)

    def __enter__(self) -> device:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class device_of(device):
    """Context manager: sets the device of a tensor; no change for a tensor elsewhere."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "hpu" else None)


# torch.accelerator and Dynamo look for these names.
def _exchange_device(device: int) -> int:
    check_device(device)
    return 0
