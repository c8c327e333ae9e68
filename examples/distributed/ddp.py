"""Trains a small network on handwritten digits with DistributedDataParallel: two ranks, each with
an emulated device of its own, and then one process with the same batches, whose losses are equal.

    ./dev python examples/distributed/ddp.py                         starts its ranks itself
    ./dev python -m torch.distributed.run --nproc-per-node 2 examples/distributed/ddp.py
"""

from __future__ import annotations

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

import habana_frameworks.torch  # noqa: F401  registers the device and the backend hccl

RANKS, STEPS, BATCH = 2, 40, 64


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 10)
    )


def train(module: nn.Module, rank: int, ranks: int) -> list[float]:
    """The mean loss of each step over all ranks, which share every batch of BATCH digits."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        own = slice(step * 40 + rank * BATCH // ranks, step * 40 + (rank + 1) * BATCH // ranks)
        loss = nn.functional.cross_entropy(module(images[own].to("hpu")), labels[own].to("hpu"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
        if step % 10 == 9:
            # One write keeps the lines of two ranks apart.
            sys.stdout.write(f"rank {rank} of {ranks}, step {step + 1}: loss {losses[-1]:.4f}\n")
            sys.stdout.flush()
    return losses


def main() -> None:
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
        raise SystemExit(subprocess.call([sys.executable, "-W", "ignore", *launcher, __file__]))
    dist.init_process_group("hccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    losses = train(nn.parallel.DistributedDataParallel(network().to("hpu")), rank, ranks)
    dist.destroy_process_group()
    if rank == 0:
        alone = train(network().to("hpu"), 0, 1)
        worst = max(abs(one - other) for one, other in zip(losses, alone, strict=True))
        print(f"the losses of {ranks} ranks and of one process differ by {worst:.1e} at most")
        torch.testing.assert_close(losses, alone, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main()
