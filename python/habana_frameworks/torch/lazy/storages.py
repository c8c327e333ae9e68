"""Storages and addresses of tensors that lazy mode has not run yet."""

from __future__ import annotations

from typing import Any

import torch

from .. import native
from ..torch_compat.replaced import original, replace

_ADDRESS = "torch.Tensor.data_ptr"
_STORAGE = "torch.Tensor.untyped_storage"


def give_memory_to_what_python_touches() -> None:
    """From now on a tensor on hpu whose storage or address Python asks for has memory, and what has
    been recorded for it is queued."""
    address, storage = original(_ADDRESS), original(_STORAGE)
    device = native.torch_module()

    def data_ptr(self: torch.Tensor) -> Any:
        if self.device.type == "hpu":
            device.give_memory(self)
        return address(self)

    def untyped_storage(self: torch.Tensor) -> Any:
        if self.device.type == "hpu":
            device.give_memory(self)
        return storage(self)

    replace(_ADDRESS, data_ptr)
    replace(_STORAGE, untyped_storage)
