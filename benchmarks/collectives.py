#!/usr/bin/env python3
"""Collectives of the backend hccl between emulated devices, beside Gloo between CPU tensors.

    collectives.py [--only calls,decode] [--ranks N] [--rounds N] [--json]

The contenders alternate; every round has fresh processes. A time is that of one call, followed by
a wait for its result, as the median over calls; the slowest rank counts. "two copies" is what
copying the buffer twice takes with both ranks at work: an all-reduce of two ranks moves at least
as many bytes. "decode" is one token of a Llama whose layers are tensor parallel: compiled on hpu,
and by PyTorch's operators on the CPU beside it, because Gloo has no compiled collectives. Raw
results go to benchmarks/results/collectives.json. All times are CPU times of the emulated device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from rank_processes import join, run_ranks
from tables import number, table

RESULTS = Path(__file__).resolve().parent / "results/collectives.json"
SIZES = {"4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "64 MiB": 64 << 20}
SECONDS = 0.5  # for the calls of one figure


def calls(device: str, elements: int) -> dict[str, Callable[[], object]]:
    ranks = dist.get_world_size()
    x, whole = torch.ones(elements, device=device), torch.ones(elements, device=device)
    part = torch.ones(elements // ranks, device=device)
    found: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(x),
        "broadcast": lambda: dist.broadcast(x, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
    }
    if device == "hpu":  # Gloo has none
        found["reduce_scatter"] = lambda: dist.reduce_scatter_tensor(part, whole)
    copy, other = torch.empty(elements), torch.ones(elements)
    found["two copies"] = lambda: (copy.copy_(other), other.copy_(copy))
    return found


def time_of(call: Callable[[], object], settle: Callable[[], None]) -> float:
    """All ranks make equally many calls, of which rank 0 decides the number."""
    for _ in range(3):
        call()
        settle()
    begin = time.perf_counter()
    call()
    settle()
    count = [max(5, min(2000, int(SECONDS / max(time.perf_counter() - begin, 1e-6))))]
    dist.broadcast_object_list(count, 0)
    times = []
    for _ in range(count[0]):
        begin = time.perf_counter()
        call()
        settle()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def decode(device: str) -> Callable[[], object]:
    """A call that computes the logits of one token, with 64 tokens in a static cache."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False).to(device)
    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    columns += ("mlp.gate_proj", "mlp.up_proj")
    plan: dict[str, ColwiseParallel | RowwiseParallel] = {}
    plan |= {name: ColwiseParallel() for name in columns}
    plan |= {name: RowwiseParallel() for name in ("self_attn.o_proj", "mlp.down_proj")}
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for layer in model.model.layers:
        parallelize_module(layer, mesh, plan)
    forward = model.forward
    if device == "hpu":
        forward = torch.compile(forward, backend="hpu_backend")
    cache = StaticCache(config=config, max_cache_len=128)
    token, position = torch.tensor([[5]], device=device), torch.tensor([64], device=device)

    def step() -> object:
        with torch.no_grad():
            return forward(
                input_ids=token,
                past_key_values=cache,
                cache_position=position,
                position_ids=position[None],
            )

    return step


def run_rank(contender: str, parts: list[str]) -> None:
    torch.set_num_threads(1)
    device = "hpu" if contender == "hccl" else "cpu"
    join(contender)
    settle = torch.hpu.synchronize if device == "hpu" else lambda: None
    times = {}
    for size, count in SIZES.items() if "calls" in parts else ():
        for name, call in calls(device, count // 4).items():
            times[f"{name} {size}"] = time_of(call, settle)
    if "decode" in parts:
        times["decode"] = time_of(decode(device), settle)
    print(json.dumps(times))
    dist.destroy_process_group()


def measure(contender: str, ranks: int, parts: str) -> dict[str, float]:
    arguments = ["--rank", contender, "--only", parts]
    times = run_ranks(__file__, arguments, ranks, OMP_NUM_THREADS="1")
    return {name: max(each[name] for each in times) for name in times[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="calls,decode", help="parts of the measurement")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", choices=("hccl", "gloo"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        return run_rank(arguments.rank, arguments.only.split(","))
    rounds: dict[str, list[dict[str, float]]] = {"hccl": [], "gloo": []}
    for number_of_round in range(arguments.rounds):
        for contender, results in rounds.items():
            print(f"round {number_of_round + 1}: {contender}", file=sys.stderr)
            results.append(measure(contender, arguments.ranks, arguments.only))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"ranks": arguments.ranks, "rounds": rounds}, indent=1))
    if arguments.json:
        print(json.dumps({"ranks": arguments.ranks, "rounds": rounds}))
        return None
    best = {
        contender: {name: statistics.median(each[name] for each in results) for name in results[0]}
        for contender, results in rounds.items()
    }
    rows = []
    for name, seconds in best["hccl"].items():
        gloo = best["gloo"].get(name)
        rows.append(
            [
                name,
                number(seconds * 1e6),
                "" if gloo is None else number(gloo * 1e6),
                "" if gloo is None else f"{gloo / seconds:.2f} ×",
            ]
        )
    print("\n".join(table(["call", "hccl, µs", "gloo, µs", "gloo / hccl"], rows)))
    return None


if __name__ == "__main__":
    main()
