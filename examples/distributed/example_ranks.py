"""Code that the programs of this folder share: it starts ranks, and joins the losses of all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

RANKS = 2


def start(program: str) -> tuple[int, int]:
    """Returns this process's rank and the number of ranks. A process that no launcher has started
    launches RANKS ranks of the program and ends with them."""
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
        raise SystemExit(subprocess.call([sys.executable, "-W", "ignore", *launcher, program]))
    dist.init_process_group("hccl")
    return dist.get_rank(), dist.get_world_size()


def mean_loss(loss: torch.Tensor, step: int, rank: int, ranks: int) -> float:
    """The mean of a step's loss over all ranks; prints every tenth."""
    mean = loss.detach().clone()
    if ranks > 1:
        dist.all_reduce(mean, dist.ReduceOp.AVG)
    value = float(mean.item())
    if step % 10 == 9:
        # One write keeps the lines of two ranks apart.
        sys.stdout.write(f"rank {rank} of {ranks}, step {step + 1}: loss {value:.4f}\n")
        sys.stdout.flush()
    return value


def compare(losses: list[float], alone: Callable[[], list[float]], ranks: int) -> None:
    """Checks that one process, which `alone` trains, has the same losses."""
    others = alone()
    worst = max(abs(one - other) for one, other in zip(losses, others, strict=True))
    print(f"the losses of {ranks} ranks and of one process differ by {worst:.1e} at most")
    torch.testing.assert_close(losses, others, rtol=1e-3, atol=1e-3)
