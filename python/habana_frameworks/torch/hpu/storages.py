"""Storages and addresses of tensors whose operators have been recorded and have not run yet."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .. import native
from ..torch_compat import features
from ..torch_compat.replaced import original, replace

_ADDRESS = "torch.Tensor.data_ptr"
_STORAGE = "torch.Tensor.untyped_storage"
_RESIZE = "torch.UntypedStorage.resize_"


@functools.cache
def give_memory_to_what_python_touches() -> None:
    """From now on a tensor on hpu whose storage or address Python asks for has memory, and what has
    been recorded for it is queued. Lazy mode and the first capture call it."""
    features.enable(features.STORAGES, _replace)


def _replace() -> None:
    address, storage, resize = original(_ADDRESS), original(_STORAGE), original(_RESIZE)
    device = native.torch_module()

    def data_ptr(self: torch.Tensor) -> Any:
        if self.device.type == "hpu":
            device.give_memory(self)
        return address(self)

    def untyped_storage(self: torch.Tensor) -> Any:
        if self.device.type == "hpu":
            device.give_memory(self)
        return storage(self)

    def resize_(self: torch.UntypedStorage, size: int) -> Any:
        if self.device.type != "hpu":
            return resize(self, size)
        # PyTorch makes an empty tensor, copies to it and takes its memory, so it must have some.
        device.give_memory(torch.empty(0, dtype=torch.uint8, device="hpu").set_(self))
        return device.without_recording(lambda: resize(self, size))

    replace(_RESIZE, resize_)
    replace(_ADDRESS, data_ptr)
    replace(_STORAGE, untyped_storage)
