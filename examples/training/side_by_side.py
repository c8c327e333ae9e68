"""One training run on hpu and one in CPU eager, from equal weights and on equal batches;
checkpoints of either are resumed on the other."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from loss_picture import write_picture
from torch import nn
from tqdm import tqdm

import habana_frameworks.torch  # noqa: F401  (brings the hpu device)
from habana_frameworks.torch.dynamo import report

WARM_UP = 20  # steps
RESUMED = 5  # steps after a checkpoint, which both devices do

# The model's arguments at a step; the model returns its loss.
BatchOf = Callable[[int], dict[str, torch.Tensor]]


class Trainer:
    """A model, its optimizer and schedule on one device; compiled on hpu."""

    def __init__(self, model: nn.Module, device: str, learning_rate: float) -> None:
        self.model, self.device = copy.deepcopy(model).to(device).train(), device
        # The rate is a tensor, so that it can change without another compilation.
        rate = torch.tensor(learning_rate, device=device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / WARM_UP)
        )
        self.forward: Callable[..., Any] = self.model
        self.update: Callable[[], Any] = self.optimizer.step
        if device == "hpu":
            self.forward = torch.compile(self.model, backend="hpu_backend")
            self.update = torch.compile(self.optimizer.step, backend="hpu_backend")

    def step(self, batch: dict[str, torch.Tensor]) -> float:
        self.optimizer.zero_grad()
        result = self.forward(**{name: value.to(self.device) for name, value in batch.items()})
        loss: torch.Tensor = getattr(result, "loss", result)
        loss.backward()
        self.update()
        self.schedule.step()
        return loss.item()

    def save(self, path: Path) -> None:
        parts = (self.model, self.optimizer, self.schedule)
        torch.save([part.state_dict() for part in parts], path)

    def load(self, path: Path) -> None:
        states = torch.load(path, map_location=self.device)
        for part, state in zip((self.model, self.optimizer, self.schedule), states, strict=True):
            part.load_state_dict(state)


def train_side_by_side(
    model: nn.Module, batch_of: BatchOf, steps: int, folder: Path, learning_rate: float = 1e-3
) -> dict[str, nn.Module]:
    """Returns the trained models by device. Writes loss.svg and a checkpoint per device to
    `folder`; prints losses, times and the difference that resuming on the other device makes."""
    losses: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    trainers: dict[str, Trainer] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for device in ("hpu", "cpu"):
        trainer = trainers[device] = Trainer(model, device, learning_rate)
        losses[device] = []
        started = 0.0
        with tqdm(range(steps), desc=device, disable=None) as bar:
            for step in bar:
                if step == 1:
                    started = time.perf_counter()
                losses[device].append(trainer.step(batch_of(step)))
                bar.set_postfix(loss=f"{losses[device][-1]:.3f}", refresh=False)
                if step == steps - RESUMED - 1:
                    trainer.save(folder / f"{device}.pt")
        seconds[device] = (time.perf_counter() - started) / (steps - 1)
    print(report())
    for step in range(0, steps, max(1, steps // 5)):
        print(f"step {step:4}: loss {losses['hpu'][step]:.4f}, CPU eager {losses['cpu'][step]:.4f}")
    print(f"a step takes {seconds['cpu'] / seconds['hpu']:.2f} times as long in CPU eager")
    for saved, resumed in (("hpu", "cpu"), ("cpu", "hpu")):
        trainer = Trainer(model, resumed, learning_rate)
        trainer.load(folder / f"{saved}.pt")
        behind = range(steps - RESUMED, steps)
        apart = max(abs(trainer.step(batch_of(k)) - losses[saved][k]) for k in behind)
        print(f"saved on {saved}, resumed on {resumed}: losses differ by {apart:.1e} at most")
    write_picture(folder / "loss.svg", losses)
    print(f"{folder / 'loss.svg'} shows both losses")
    return {device: trainer.model.eval() for device, trainer in trainers.items()}
