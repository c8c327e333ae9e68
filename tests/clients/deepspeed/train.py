"""Trains a small language model with DeepSpeed on the ranks of torchrun and prints the losses.

train.py FORM FOLDER [--load]     FOLDER keeps the checkpoint
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import deepspeed
import torch
import torch.nn.functional as F
from deepspeed.accelerator import get_accelerator
from deepspeed.pipe import LayerSpec, PipelineModule
from forms import FORMS, PIPELINE

WORDS, LENGTH, WIDTH, BATCH, STEPS = 128, 32, 64, 4, 6


class Embedding(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.places = torch.nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.words(words) + self.places


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = (
            torch.nn.Linear(WIDTH, 4 * WIDTH),
            torch.nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.first(x)).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(seen)
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


def layers() -> list[LayerSpec]:
    return [
        LayerSpec(Embedding),
        LayerSpec(Block),
        LayerSpec(Block),
        LayerSpec(torch.nn.Linear, WIDTH, WORDS),
    ]


def loss_of(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores[:, :-1].flatten(0, 1).float(), words[:, 1:].flatten())


def batches(rank: int) -> Any:
    generator = torch.Generator().manual_seed(rank)
    while True:
        words = torch.randint(0, WORDS, (BATCH, LENGTH), generator=generator)
        yield words.to(get_accelerator().current_device_name())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--load", action="store_true", help="go on from the checkpoint")
    args = parser.parse_args()
    deepspeed.init_distributed(dist_backend=get_accelerator().communication_backend_name())
    config = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        **FORMS[args.form],
    }
    torch.manual_seed(0)
    pipeline = args.form == PIPELINE
    if pipeline:
        config["gradient_accumulation_steps"] = 4
        model = PipelineModule(layers(), num_stages=2, loss_fn=loss_of)
    else:
        model = torch.nn.Sequential(*(spec.build() for spec in layers()))
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    rank = torch.distributed.get_rank()
    data = batches(0 if pipeline else rank)
    if args.form.startswith("compiled"):
        engine.compile(backend=get_accelerator().get_compile_backend())
    if args.load:
        engine.load_checkpoint(str(args.folder))
        for _ in range(STEPS):
            next(data)
    losses = []
    for _ in range(STEPS):
        if pipeline:
            pairs = ((words, words) for words in data)
            losses.append(engine.train_batch(data_iter=pairs).item())
            continue
        words = next(data)
        loss = loss_of(engine(words), words)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    if not args.load and not pipeline:
        engine.save_checkpoint(str(args.folder))
    print(f"LOSSES {json.dumps([rank, losses])}\n", end="", flush=True)


if __name__ == "__main__":
    main()
