"""Trains a small network on handwritten digits with DistributedDataParallel: two ranks, each with
an emulated device of its own, and then one process with the same batches, whose losses are equal.

    ./dev python examples/distributed/ddp.py                         starts its ranks itself
    ./dev python -m torch.distributed.run --nproc-per-node 2 examples/distributed/ddp.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from example_ranks import compare, mean_loss, start
from sklearn.datasets import load_digits
from torch import nn

import habana_frameworks.torch  # noqa: F401  registers the device and the backend hccl

STEPS, BATCH = 40, 64


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
        losses.append(mean_loss(loss, step, rank, ranks))
    return losses


def main() -> None:
    rank, ranks = start(__file__)
    losses = train(nn.parallel.DistributedDataParallel(network().to("hpu")), rank, ranks)
    dist.destroy_process_group()
    if rank == 0:
        compare(losses, lambda: train(network().to("hpu"), 0, 1), ranks)


if __name__ == "__main__":
    main()
