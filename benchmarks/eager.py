#!/usr/bin/env python3
"""Eager ops on hpu beside eager ops on the CPU, side by side in one run.

    eager.py [--rounds N] [--groups tiny,real,shapes,models] [--threads N]

Every figure comes from a process of its own; contenders alternate within each round:

- cpu: PyTorch's CPU;
- hpu: the default, where calls are direct until their signature is worth a program (docs/eager.md);
- recipes: PT_HPU_PLACE_ON_CPU=none, so that every call is a program.

Raw results go to benchmarks/results/eager.json, a table for docs/eager.md to standard output. All
times are CPU times of the emulated device.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from tables import number, table

RESULTS = Path(__file__).resolve().parent / "results/eager.json"
GROUPS = ("tiny", "real", "shapes", "models")
Call = Callable[[], Any]
Times = dict[str, float]


def tensors(device: str) -> Callable[..., torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return lambda *sizes: torch.randn(sizes, generator=generator).to(device)


def tiny(device: str) -> dict[str, Call]:
    """Calls on 4 to 16 elements."""
    t = tensors(device)
    x, y, w, v = t(4, 4), t(4, 4), t(4, 4), t(16)
    index, condition = torch.tensor([0, 2, 1]).to(device), x > 0
    return {
        "add": lambda: x + y,
        "mul_": lambda: y.mul_(1.0),
        "relu": lambda: x.relu(),
        "sum": lambda: x.sum(),
        "mm": lambda: torch.mm(x, w),
        "cat": lambda: torch.cat([x, y]),
        "argmax": lambda: x.argmax(1),
        "softmax": lambda: x.softmax(1),
        "index": lambda: v[index],
        "where": lambda: torch.where(condition, x, y),
        "linear": lambda: F.linear(x, w),
        "item": lambda: v[0].item(),
    }


def real(device: str) -> dict[str, Call]:
    """Calls of the sizes that models have."""
    t = tensors(device)
    x, y, square = t(1024, 768), t(1024, 768), t(512, 512)
    weight, bias = t(3072, 768), t(3072)
    half_weight = weight.bfloat16()
    image, kernel, deep = t(4, 64, 56, 56), t(64, 64, 3, 3), t(64, 64, 1, 1)
    depthwise = t(64, 1, 3, 3)
    q, k, v = t(2, 12, 128, 64), t(2, 12, 128, 64), t(2, 12, 128, 64)
    norm_weight, norm_bias, channels = t(768), t(768), t(64)
    ids = torch.arange(1024).to(device) * 7 % 1000
    rows = torch.arange(1024).to(device).unsqueeze(1).expand(1024, 768).contiguous()
    half = x.bfloat16()
    return {
        "add": lambda: x + y,
        "mul": lambda: x * 0.5,
        "addcmul": lambda: torch.addcmul(x, x, y),
        "gelu": lambda: F.gelu(x),
        "silu": lambda: F.silu(x),
        "tanh": lambda: x.tanh(),
        "exp": lambda: x.exp(),
        "where": lambda: torch.where(x > 0, x, y),
        "to bf16": lambda: x.bfloat16(),
        "transpose": lambda: x.t().contiguous(),
        "sum": lambda: x.sum(1),
        "mean of all": lambda: x.mean(),
        "var": lambda: x.var(1),
        "argmax": lambda: x.argmax(1),
        "softmax": lambda: x.softmax(1),
        "layer norm": lambda: F.layer_norm(x, (768,), norm_weight, norm_bias),
        "batch norm": lambda: F.batch_norm(image, channels, channels.abs(), channels, channels),
        "mm": lambda: square @ square,
        "linear": lambda: F.linear(x, weight, bias),
        "linear bf16": lambda: F.linear(half, half_weight),
        "bmm": lambda: torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2)),
        "attention": lambda: F.scaled_dot_product_attention(q, k, v),
        "conv 3x3": lambda: F.conv2d(image, kernel, padding=1),
        "conv 1x1": lambda: F.conv2d(image, deep),
        "conv depthwise": lambda: F.conv2d(image, depthwise, padding=1, groups=64),
        "max pool": lambda: F.max_pool2d(image, 2),
        "sort": lambda: square.sort(1),
        "topk": lambda: x.topk(8, 1),
        "scatter_add": lambda: torch.zeros_like(x).scatter_add_(0, rows, y),
        "embedding": lambda: F.embedding(ids, x),
        "dropout": lambda: F.dropout(x, 0.1),
    }


def best(call: Call, synchronize: Call) -> float:
    """Seconds for one call: the best of several batches, each until the device is done. Before that
    there are enough calls that every signature which is ever worth a program has one."""
    started = time.perf_counter()
    count = 0
    while time.perf_counter() - started < 0.3 or count < 50:
        call()
        count += 1
        if count % 10 == 0:
            synchronize()
    batch = max(2, int(count * 0.1))
    times = []
    for _ in range(7):
        started = time.perf_counter()
        for _ in range(batch):
            call()
        synchronize()
        times.append((time.perf_counter() - started) / batch)
    return min(times)


def shapes(device: str, synchronize: Call) -> Times:
    """A loop over 1,000 shapes that no call had before."""
    t = tensors(device)
    large = t(1100, 96)
    started = time.perf_counter()
    for rows in range(64, 1064):
        x = large[:rows]
        ((x * 2 + 1).relu().sum(1) / 96).softmax(0)
    synchronize()
    return {"1,000 shapes": time.perf_counter() - started}


def models(device: str, synchronize: Call) -> Times:
    import transformers

    config: dict[str, Any] = {"num_hidden_layers": 4}
    torch.manual_seed(0)
    tokens = torch.randint(5, 1000, (4, 128)).to(device)
    images = torch.randn(2, 3, 224, 224).to(device)
    runs: dict[str, Call] = {}

    def add(name: str, model: torch.nn.Module, inputs: torch.Tensor) -> None:
        model = model.eval().to(device)
        runs[name] = lambda: model(inputs)

    add("BERT, 4 layers", transformers.BertModel(transformers.BertConfig(**config)), tokens)
    add("GPT-2, 4 layers", transformers.GPT2Model(transformers.GPT2Config(n_layer=4)), tokens)
    add("ViT, 4 layers", transformers.ViTModel(transformers.ViTConfig(**config)), images)
    add("ResNet-50", transformers.ResNetModel(transformers.ResNetConfig()), images)
    with torch.no_grad():
        return {name: best_of_model(run, synchronize) for name, run in runs.items()}


def best_of_model(run: Call, synchronize: Call) -> float:
    times = []
    for _ in range(14):
        started = time.perf_counter()
        run()
        synchronize()
        times.append(time.perf_counter() - started)
    return min(times)


def measure(contender: str, group: str, threads: int) -> Times:
    """Measures in this process."""
    import habana_frameworks.torch as hpu

    if threads:
        torch.set_num_threads(threads)
    device = "cpu" if contender == "cpu" else "hpu"
    synchronize = (lambda: None) if device == "cpu" else hpu.hpu.synchronize
    if group == "shapes":
        return shapes(device, synchronize)
    if group == "models":
        return models(device, synchronize)
    with torch.no_grad():
        calls = tiny(device) if group == "tiny" else real(device)
        return {name: best(call, synchronize) for name, call in calls.items()}


def in_process(contender: str, group: str, threads: int, cache: str) -> Times:
    environment = {**os.environ, "HPU_CACHE_DIR": cache}
    if contender == "recipes":
        environment["PT_HPU_PLACE_ON_CPU"] = "none"
    command = [sys.executable, __file__, "--one", contender, group, "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    for line in done.stdout.splitlines():
        if line.startswith("TIMES "):
            times: Times = json.loads(line.removeprefix("TIMES "))
            return times
    raise SystemExit(f"{contender}, {group}: no times\n{done.stdout}\n{done.stderr}")


def contenders(group: str) -> tuple[str, ...]:
    return ("cpu", "hpu", "recipes") if group != "shapes" else ("cpu", "hpu")


def rows(group: str, found: dict[str, list[Times]]) -> Iterator[list[str]]:
    """One line per call: the CPU's time, and how many times as fast each contender is."""
    others = [c for c in contenders(group) if c != "cpu"]
    logs: dict[str, list[float]] = {c: [] for c in others}
    for name in found["cpu"][0]:
        middle = {c: statistics.median(t[name] for t in found[c]) for c in contenders(group)}
        line = [name, number(middle["cpu"] * 1e6)]
        for contender in others:
            ratio = middle["cpu"] / middle[contender]
            logs[contender].append(math.log(ratio))
            line.append(f"{ratio:.2f}")
        yield line
    means = [f"{math.exp(statistics.mean(logs[c])):.2f}" for c in others]
    yield ["geometric mean", "", *means]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's default")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print("TIMES", json.dumps(measure(args.one[0], args.one[1], args.threads)))
        return
    results: dict[str, dict[str, list[Times]]] = {}
    with tempfile.TemporaryDirectory(prefix="hpu-eager-") as cache:
        for group in args.groups.split(","):
            found = results.setdefault(group, {c: [] for c in contenders(group)})
            for number_of_round in range(args.rounds):
                for contender in contenders(group):
                    print(f"{group}: round {number_of_round + 1}, {contender}", file=sys.stderr)
                    found[contender].append(in_process(contender, group, args.threads, cache))
            others = [c for c in contenders(group) if c != "cpu"]
            header = [group, "CPU eager, µs", *(f"{c}, times as fast" for c in others)]
            print("\n".join(table(header, list(rows(group, found)))), end="\n\n")
        subprocess.run(
            [sys.executable, "-m", "habana_frameworks.torch.cli", "stop"],
            env={**os.environ, "HPU_CACHE_DIR": cache},
            stdout=subprocess.DEVNULL,
            check=False,
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"load": os.getloadavg()[0], "results": results}))


if __name__ == "__main__":
    main()
