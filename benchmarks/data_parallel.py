#!/usr/bin/env python3
"""DistributedDataParallel over emulated devices of one host, beside one process.

    data_parallel.py [--only bert,hidden,start] [--rounds N] [--json]

bert: samples per second of BERT-base's training step, compiled: two ranks with a core each, over
one process with both cores and the same total batch. hidden: the share of the communication of
ResNet-50's backward, compiled, that runs beside its computation, by DDP's own logging data (two
ranks). start: seconds from nothing to the end of the first training step of a small BERT, with all
programs in the store: eight ranks over one.

The contenders alternate; every round has fresh processes, and the slowest rank counts. Raw results
go to benchmarks/results/data_parallel.json. All times are CPU times of the emulated device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from rank_processes import join, run_ranks
from tables import table
from torch import nn

RESULTS = Path(__file__).resolve().parent / "results/data_parallel.json"
STEPS = {"bert": 5, "hidden": 12, "start": 1}
WARM_UP = {"bert": 2, "hidden": 0, "start": 0}
# By part: the contenders' numbers of ranks.
RANKS = {"bert": (2, 1), "hidden": (2,), "start": (8, 1)}


def bert(ranks: int, small: bool) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The model, and a rank's share of a batch of 8 (small: 8 for each rank)."""
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2} if small else {}
    config = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes)
    count = 8 if small else 8 // ranks
    batch = {
        "input_ids": torch.randint(0, 1000, (count, 128), device="hpu"),
        "labels": torch.zeros(count, dtype=torch.int64, device="hpu"),
    }
    return BertForSequenceClassification(config).to("hpu"), batch


def resnet() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    batch = {
        "pixel_values": torch.randn(4, 3, 224, 224, device="hpu"),
        "labels": torch.zeros(4, dtype=torch.int64, device="hpu"),
    }
    return ResNetForImageClassification(ResNetConfig(num_labels=10)).to("hpu"), batch


def run_rank(part: str) -> None:
    begin = float(os.environ["BEGIN"])
    ranks = int(os.environ["WORLD_SIZE"])
    join("hccl")
    torch.manual_seed(0)
    plain, batch = resnet() if part == "hidden" else bert(ranks, small=part == "start")
    module = nn.parallel.DistributedDataParallel(plain) if ranks > 1 else plain
    forward: Callable[..., object] = torch.compile(module, backend="hpu_backend")
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        forward(**batch).loss.backward()
        optimizer.step()
        torch.hpu.synchronize()

    times = []
    for _ in range(WARM_UP[part] + STEPS[part]):
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    found = {"seconds": statistics.median(times[WARM_UP[part] :])}
    if part == "start":
        found["seconds"] = time.time() - begin
    if part == "hidden":
        logged = module._get_ddp_logging_data()
        overlap = logged["avg_backward_compute_comm_overlap_time"]
        found["share"] = overlap / logged["avg_backward_comm_time"]
    print(json.dumps(found))
    dist.destroy_process_group()


def measure(part: str, ranks: int) -> dict[str, float]:
    found = run_ranks(__file__, ["--rank", part], ranks)
    worst = {"seconds": max, "share": min}
    return {name: worst[name](each[name] for each in found) for name in found[0]}


def summary(part: str, rounds: dict[str, list[dict[str, float]]]) -> list[str]:
    def median(ranks: int, name: str) -> float:
        return statistics.median(each[name] for each in rounds[str(ranks)])

    if part == "hidden":
        return ["communication of ResNet-50 beside its backward", f"{median(2, 'share'):.0%}"]
    many, one = (median(ranks, "seconds") for ranks in RANKS[part])
    if part == "bert":
        return ["BERT-base, samples/s: 2 ranks / 1 process", f"{one / many:.2f} ×"]
    return ["first step, seconds: 8 ranks / 1", f"{many / one:.2f} × ({many:.1f} / {one:.1f} s)"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="bert,hidden,start", help="parts of the measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", choices=tuple(RANKS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        return run_rank(arguments.rank)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for part in arguments.only.split(","):
        rounds = found[part] = {str(ranks): [] for ranks in RANKS[part]}
        if part == "start":
            for ranks in RANKS[part]:
                measure(part, ranks)  # fills the store
        for number in range(arguments.rounds):
            for ranks in RANKS[part]:
                print(f"{part}, round {number + 1}: ranks {ranks}", file=sys.stderr)
                rounds[str(ranks)].append(measure(part, ranks))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1))
    if arguments.json:
        print(json.dumps(found))
        return None
    rows = [summary(part, rounds) for part, rounds in found.items()]
    print("\n".join(table(["figure", "median"], rows)))
    return None


if __name__ == "__main__":
    main()
