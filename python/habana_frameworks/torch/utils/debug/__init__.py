"""Debugging aids: loggers, counters, caches, memory; switches of the bridge's passes are in
switches.py, and counts of a graph's operators in dynamo_utils.py."""

from __future__ import annotations

import torch

from ... import hpu, native
from ...internal.logger import Logger as Logger
from ...internal.logger import enable_logging as enable_logging
from ...internal.submodules import on_demand
from .switches import ACCEPTED

globals().update(ACCEPTED)

_graph_log = Logger("PT_HPUGRAPH")
_bridge_log = Logger("PT_BRIDGE")
_memory_log = Logger("PT_MEMLOG")


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


def _flush_disk_cache() -> None:
    """Does nothing: the daemon files a program before it hands it out."""


def _hg_print(msg: str) -> None:
    """Writes a line about HPU graphs to the log (level debug)."""
    _graph_log.debug("{}", msg)


def _hb_print(msg: str) -> None:
    """Writes a line to the log (level debug)."""
    _bridge_log.debug("{}", msg)


def _mem_log(msg: str) -> bool:
    """Writes the device's memory to the log (level debug), after `msg`. Always True."""
    _memory_log.debug("{}\n{}", msg, hpu.memory_summary())
    return True


def _memstat_livealloc(msg: str = "") -> None:
    """The same as _mem_log."""
    _mem_log(msg)


def _memstat_devmem_start_collect(msg: str = "", show_cs: bool = True) -> None:
    """Begins to count the peak of memory anew, and writes what is in use now to the log. show_cs:
    accepted; there are no call stacks of allocations."""
    hpu.reset_peak_memory_stats()
    _mem_log(msg)


def _memstat_devmem_stop_collect(msg: str = "") -> None:
    """Writes to the log what is in use, and the peak since _memstat_devmem_start_collect."""
    _mem_log(msg)


def _dump_memory_reporter() -> None:
    """Writes the device's memory to the log (level debug)."""
    _mem_log("memory")


def _get_shape_agnostic_unsupported_ops() -> set[str]:
    """The operators whose programs serve one shape only: none, because every program does."""
    return set()


def _get_eager_compiler_unsupported_op_prefixes() -> set[str]:
    """Names of operators that the compiler of eager calls refuses: eager calls have the compiler
    of graphs."""
    return set()


def _is_enabled_weight_permute_pass() -> bool:
    """False, as in the reference: weights keep PyTorch's order in memory."""
    return False


def _is_enabled_synapse_layout_handling() -> bool:
    """True: the compiler chooses layouts, so that contiguous inputs are as good as others."""
    return True


def _is_enabled_lazy_collectives() -> bool:
    """Whether collectives are part of lazy graphs; there are none between hpu devices."""
    return False


__getattr__ = on_demand(__name__, "dynamo_utils", "logger")
