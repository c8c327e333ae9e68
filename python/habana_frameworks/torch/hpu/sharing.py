"""Tensors on hpu that are sent to another process, by torch.multiprocessing and by the workers of a
DataLoader. Device memory belongs to one process, so the receiver gets a copy on its device, whose
elements are row-major. They travel as bytes: shared memory of the CPU would have to outlive this
process's tensor until the other one has it."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor


def _rebuild(
    elements: bytes,
    dtype: torch.dtype,
    sizes: tuple[int, ...],
    is_parameter: bool,
    requires_grad: bool,
) -> torch.Tensor:
    if elements:
        host = torch.frombuffer(bytearray(elements), dtype=torch.uint8).view(dtype).reshape(sizes)
    else:
        host = torch.empty(sizes, dtype=dtype)
    tensor = host.to("hpu")
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce(tensor: torch.Tensor) -> Any:
    if tensor.device.type != "hpu":
        return reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor on hpu that is the result of a differentiable computation cannot be sent to "
            "another process, because autograd does not follow it there; send tensor.detach()"
        )
    host = tensor.detach().cpu().contiguous()
    elements = host.reshape(-1).view(torch.uint8).numpy().tobytes()
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    return _rebuild, (elements, host.dtype, host.shape, is_parameter, tensor.requires_grad)


def register() -> None:
    """Makes both kinds of tensors known to torch.multiprocessing."""
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)
