"""The backend "hccl" of torch.distributed for tensors on hpu. `import torch` registers it."""

from __future__ import annotations

import functools
import os
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .. import native
from ..internal.after_import import after_import
from ..torch_compat import features
from . import attention_sharding


def _share_cores() -> None:
    """Gives the emulated device of each rank of this host its share of the cores, unless the user
    or the launcher has chosen cores already. Ranks with a thread per core each would take turns on
    them."""
    told = os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE")
    ranks, cores = int(told or 1), os.cpu_count() or 1
    pinned = len(os.sched_getaffinity(0)) < cores
    if ranks > 1 and not pinned and "HPU_EMULATOR_THREADS" not in os.environ:
        native.torch_module().set_num_threads(max(1, cores // ranks))


@functools.cache
def _prepare_distributed_tensors() -> None:
    """Programs without process groups do without what this imports."""
    after_import(
        "torch.distributed.tensor",
        lambda: features.enable(features.SHARDED_ATTENTION, attention_sharding.register),
    )
    after_import(
        "torch.distributed.tensor.experimental._context_parallel._attention",
        lambda: features.enable(
            features.CONTEXT_PARALLEL, attention_sharding.refuse_causal_context_parallel
        ),
    )


def _make(options: Any, backend_options: Any) -> Any:
    module = native.torch_module()
    _share_cores()
    _prepare_distributed_tensors()
    if backend_options is None:
        backend_options = module.HcclOptions()
    timeout = options.timeout
    backend_options._timeout = (
        timeout if isinstance(timeout, timedelta) else timedelta(seconds=float(timeout))
    )
    backend_options.group_name = options.group_id
    return module.HcclBackend(
        options.store, options.group_rank, options.group_size, backend_options
    )


def register() -> None:
    """Makes "hccl" known to torch.distributed, as the backend of hpu."""
    if not dist.is_available():
        return
    from ..torch_compat import process_groups

    process_groups.register("hccl", "hpu", _make)
