"""Debugging aids: loggers, counters, caches."""

from __future__ import annotations

import torch

from ... import hpu, native
from ...internal.logger import Logger as Logger
from ...internal.logger import enable_logging as enable_logging


def _get_fallback_op_count() -> dict[str, int]:
    """The number of eager ops that ran on the CPU, by name."""
    return dict(native.torch_module().fallback_counts())


def _get_jit_cache_size() -> int:
    """The number of programs of compiled graphs that this process keeps in memory. Those of eager
    calls are not counted."""
    from ...dynamo.programs.service import service

    return service.program_count()


def _clear_jit_cache() -> None:
    """Forgets these programs, and which graphs could not be compiled: the next capture of such a
    graph asks the store again. Functions that are already compiled keep running."""
    from ...dynamo.programs.service import service

    service.forget_programs()


def _bridge_cleanup() -> None:
    """Waits for the device's queued work and forgets the programs in memory."""
    if hpu.is_initialized():
        hpu.synchronize()
    _clear_jit_cache()


def get_tensor_info(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Returns (address, bytes) of the storage of a tensor on hpu; None for a tensor elsewhere."""
    if tensor.device.type != "hpu":
        return None
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()
