"""Trains a small GPT whose parameters, gradients and optimizer state are spread over two ranks by
FSDP 2, compiled with hpu_backend, and then one process with the same batches, whose losses are
equal.

    ./dev python examples/distributed/fsdp.py                        starts its ranks itself
    ./dev python -m torch.distributed.run --nproc-per-node 2 examples/distributed/fsdp.py

The text is Python's own documentation of its keywords, by characters.
"""

from __future__ import annotations

from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from example_ranks import compare, mean_loss, start
from torch import nn
from torch.distributed.fsdp import fully_shard
from transformers import GPT2Config, GPT2LMHeadModel

import habana_frameworks.torch  # noqa: F401  registers the device and the backend hccl

STEPS, BATCH, LENGTH = 30, 8, 64


def gpt() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=128, n_positions=LENGTH, n_embd=128, n_layer=4, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return GPT2LMHeadModel(config).to("hpu")


def train(model: nn.Module, rank: int, ranks: int) -> list[float]:
    """The mean loss of each step over all ranks, which share every batch."""
    text = "".join(value for _, value in sorted(topics.items())).encode("ascii", "ignore")
    data = torch.tensor(list(text[: STEPS * BATCH * LENGTH])).view(STEPS, BATCH, LENGTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    for step in range(STEPS):
        own = data[step].chunk(ranks)[rank].to("hpu")
        loss = model(input_ids=own, labels=own).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(mean_loss(loss, step, rank, ranks))
    return losses


def main() -> None:
    rank, ranks = start(__file__)
    model = gpt()
    for block in model.transformer.h:
        fully_shard(block)
        block.compile(backend="hpu_backend")
    fully_shard(model)
    held = sum(p.to_local().numel() for p in model.parameters())
    print(f"rank {rank} holds {held} of {sum(p.numel() for p in model.parameters())} parameters")
    losses = train(model, rank, ranks)
    dist.destroy_process_group()
    if rank == 0:
        compare(losses, lambda: train(gpt(), 0, 1), ranks)


if __name__ == "__main__":
    main()
