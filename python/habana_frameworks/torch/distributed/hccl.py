"""The environment of a distributed run, from the variables that a launcher set.

The import sets it up, as in the reference. The backend "hccl" itself is registered by `import
torch` (process_group.py).
"""

from __future__ import annotations

import os

# The variables of Open MPI and the corresponding ones of torch.distributed.
_MPI = {
    "OMPI_COMM_WORLD_SIZE": "WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK": "RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK": "LOCAL_RANK",
}


def _take_from_mpi() -> None:
    """Sets WORLD_SIZE, RANK and LOCAL_RANK from Open MPI's variables unless all three are set, and
    lets the ranks meet on this host."""
    if all(name in os.environ for name in _MPI.values()):
        return
    if all(name in os.environ for name in _MPI):
        for theirs, name in _MPI.items():
            os.environ[name] = os.environ[theirs]
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "12345")


def _set_module_id(local_rank: int, world_size: int) -> None:
    """Sets HLS_MODULE_ID, the card of this rank; with one rank any card will do."""
    if "HLS_MODULE_ID" in os.environ or local_rank == -1 or world_size == 1:
        return
    visible = os.environ.get("HABANA_VISIBLE_MODULES")
    if visible is None:
        os.environ["HLS_MODULE_ID"] = str(local_rank)
        return
    modules = visible.split(",")
    if local_rank >= len(modules):
        raise RuntimeError(
            f"local rank {local_rank} has no card: HABANA_VISIBLE_MODULES={visible} names "
            f"{len(modules)}; start at most as many ranks, or name more modules"
        )
    os.environ["HLS_MODULE_ID"] = modules[local_rank]


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """Returns (world size, rank, local rank); (1, -1, -1) without a launcher.

    If all three are given, they are set in the environment. Otherwise torchrun's variables count,
    then Open MPI's.
    """
    if world_size is not None and rank is not None and local_rank is not None:
        given = {"WORLD_SIZE": world_size, "RANK": rank, "LOCAL_RANK": local_rank}
        os.environ.update({name: str(value) for name, value in given.items()})
    else:
        _take_from_mpi()
    size = int(os.environ.get("WORLD_SIZE", "1"))
    own = int(os.environ.get("RANK", "-1"))
    local = int(os.environ.get("LOCAL_RANK", "-1"))
    _set_module_id(local, size)
    if own != -1:
        os.environ["ID"] = str(own)  # it names the log folders of the device's library
    return size, own, local


initialize_distributed_hpu()
