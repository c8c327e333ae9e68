#!/usr/bin/env python3
"""Training steps (forward, backward, AdamW) of hpu_backend beside CPU eager and Inductor.

Every figure comes from a process of its own; contenders alternate within each round. Prints ratios
of the medians over the rounds: how many times as long the other one takes. Raw results go to
benchmarks/results/training.json. All times are CPU times of the emulated device.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

RESULTS = Path(__file__).resolve().parent / "results/training.json"
CONTENDERS = ("hpu", "eager", "inductor")
MIN_STEPS = 5

Step = Callable[[], torch.Tensor]
Case = tuple[nn.Module, dict[str, torch.Tensor]]


class WithLoss(nn.Module):
    """A model whose outputs are classes of the inputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        out = self.model(x)
        out = getattr(out, "logits", out)
        return F.cross_entropy(out.reshape(-1, out.shape[-1]), labels.reshape(-1))


class LanguageModel(nn.Module):
    """An LSTM over words."""

    def __init__(self, words: int, size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.lstm = nn.LSTM(size, size, 2, batch_first=True)
        self.head = nn.Linear(size, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(self.embed(x))
        out: torch.Tensor = self.head(hidden)
        return out


class Denoiser(nn.Module):
    """A model of images that says what was added to them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.model(x + noise), noise)


def tokens(words: int, *sizes: int) -> torch.Tensor:
    return torch.randint(words, sizes)


def bert(layers: int) -> Case:
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(num_hidden_layers=layers))
    return model, {"input_ids": tokens(30522, 8, 128), "labels": tokens(2, 8)}


def gpt2(layers: int) -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = WithLoss(GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False)))
    x = tokens(50257, 2, 128)
    return model, {"x": x, "labels": x}


def resnet(layers: int) -> Case:
    from transformers import ResNetConfig, ResNetForImageClassification

    depths = [3, 4, 6, 3] if layers > 4 else [1, 1, 1, 1]
    model = WithLoss(ResNetForImageClassification(ResNetConfig(depths=depths, num_labels=1000)))
    return model, {"x": torch.randn(4, 3, 224, 224), "labels": tokens(1000, 4)}


def vit(layers: int) -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    model = WithLoss(ViTForImageClassification(ViTConfig(num_hidden_layers=layers, num_labels=10)))
    return model, {"x": torch.randn(4, 3, 224, 224), "labels": tokens(10, 4)}


def unet(layers: int) -> Case:
    from cases import UNet

    width, size = (32, 128) if layers > 4 else (16, 32)
    x = torch.randn(4, 3, size, size)
    return Denoiser(UNet(width)), {"x": x, "noise": torch.randn_like(x)}


def lstm(_: int) -> Case:
    return WithLoss(LanguageModel(5000, 256)), {
        "x": tokens(5000, 16, 32),
        "labels": tokens(5000, 16, 32),
    }


def mlp(_: int) -> Case:
    sizes = (512, 1024, 1024, 10)
    layers: list[nn.Module] = []
    for i, o in itertools.pairwise(sizes):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return WithLoss(nn.Sequential(*layers[:-1])), {
        "x": torch.randn(128, 512),
        "labels": tokens(10, 128),
    }


CASES: dict[str, Callable[[int], Case]] = {
    "bert": bert,
    "gpt2": gpt2,
    "resnet": resnet,
    "vit": vit,
    "unet": unet,
    "lstm": lstm,
    "mlp": mlp,
}


def make_step(contender: str, case: Case, bf16: bool) -> Step:
    model, inputs = case
    device = "hpu" if contender == "hpu" else "cpu"
    if device == "hpu":
        import habana_frameworks.torch  # noqa: F401
    model.train().to(device)
    given = {name: value.to(device) for name, value in inputs.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    forward: Any = model
    update: Any = optimizer.step
    if contender != "eager":
        backend = {"hpu": "hpu_backend", "inductor": "inductor"}[contender]
        forward = torch.compile(model, backend=backend)
        update = torch.compile(optimizer.step, backend=backend)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            result = forward(**given)
        loss: torch.Tensor = getattr(result, "loss", result)
        loss.backward()
        update()
        if device == "hpu":
            torch.hpu.synchronize()
        return loss

    return step


def measure(contender: str, name: str, layers: int, bf16: bool, seconds: float) -> dict[str, float]:
    """In this process. Seconds of the first step and of the median one; the loss after MIN_STEPS
    steps, which contenders share up to rounding where nothing is dropped."""
    torch.manual_seed(0)
    step = make_step(contender, CASES[name](layers), bf16)
    started = time.perf_counter()
    step()
    first = time.perf_counter() - started
    step()  # what an optimizer does in its first step only is through
    times: list[float] = []
    loss = 0.0
    while len(times) < MIN_STEPS or sum(times) < seconds:
        started = time.perf_counter()
        result = step()
        times.append(time.perf_counter() - started)
        if len(times) == MIN_STEPS:
            loss = result.item()
    eager = 0
    if contender == "hpu":
        from habana_frameworks.torch.dynamo import report

        eager = report().eager_segments
    return {
        "first_s": first,
        "median_s": statistics.median(times),
        "best_s": min(times),
        "loss": loss,
        "eager_segments": eager,
    }


def in_a_process(contender: str, name: str, options: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--one", contender, "--cases", name]
        command += ["--layers", str(options.layers), "--seconds", str(options.seconds)]
        command += ["--bf16"] if options.bf16 else []
        environment = os.environ | {
            "HPU_CACHE_DIR": f"{cache}/hpu",
            "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{contender} on {name}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def show(results: dict[str, dict[str, list[dict[str, float]]]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("model", "over eager", "over Inductor", "first step", "eager segments")
    for name, runs in results.items():
        middle = {c: statistics.median(r["median_s"] for r in runs[c]) for c in CONTENDERS}
        first = {c: statistics.median(r["first_s"] for r in runs[c]) for c in CONTENDERS}
        table.add_row(
            name,
            f"{middle['eager'] / middle['hpu']:.2f}",
            f"{middle['inductor'] / middle['hpu']:.2f}",
            f"{first['inductor'] / first['hpu']:.1f} over Inductor",
            f"{runs['hpu'][0]['eager_segments']:.0f}",
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", default=",".join(CASES), help="names, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--layers", type=int, default=12, help="of the transformers; 4: all models short"
    )
    parser.add_argument("--seconds", type=float, default=10, help="of timed steps per process")
    parser.add_argument("--bf16", action="store_true", help="under autocast")
    parser.add_argument("--json", action="store_true", help="raw results instead of a table")
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.cases.split(",")
    if options.one:
        print(
            json.dumps(
                measure(options.one, names[0], options.layers, options.bf16, options.seconds)
            )
        )
        return
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name in names:
        runs = results[name] = {contender: [] for contender in CONTENDERS}
        for number in range(options.rounds):
            for contender in CONTENDERS:
                runs[contender].append(in_a_process(contender, name, options))
                took = runs[contender][-1]
                print(
                    f"{name}, round {number + 1}, {contender}: first step {took['first_s']:.1f} s, "
                    f"then {took['median_s'] * 1e3:.1f} ms, loss {took['loss']:.4f}",
                    file=sys.stderr,
                    flush=True,
                )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({"layers": options.layers, "bf16": options.bf16, "runs": results})
    )
    if options.json:
        print(json.dumps(results))
        return
    show(results)


if __name__ == "__main__":
    main()
