#!/usr/bin/env python3
"""Peak and fragmentation of device memory in training, beside the policy of PyTorch's CUDA
allocator.

    memory_policy.py [--models bert-base,gpt2,resnet50,lstm] [--steps N] [--layers N]

Each training script runs in a process of its own, eagerly, compiled and in lazy mode, and records
the allocator's history. The requests of that history, in their order, are then given to a model of
the policy of PyTorch 2.13's CUDACachingAllocator.cpp with its default settings: sizes are rounded
to 512 bytes, requests up to 1 MiB share segments of 2 MiB, those below 10 MiB segments of 20 MiB,
larger ones get a segment rounded to 2 MiB; the smallest free block that fits is taken, and it is
split if at least 512 bytes (small) or more than 1 MiB (large) remain. "Ours" are the figures of the
device's allocator itself. Raw results go to benchmarks/results/memory_policy.json.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lazy import step_of
from tables import table
from training_cases import FULL

RESULTS = Path(__file__).resolve().parent / "results/memory_policy.json"
WAYS = ("eager", "compile", "lazy")
MIB = 1 << 20


@dataclass(eq=False)
class Block:
    address: int
    size: int
    small: bool
    free: bool = False
    before: Block | None = None
    after: Block | None = None


class CudaPolicy:
    """The caching allocator's reserved memory for a sequence of requests on one stream."""

    def __init__(self) -> None:
        self.reserved = 0
        self._lists: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._at: dict[int, Block] = {}
        self._next = 0

    @staticmethod
    def _segment(size: int) -> int:
        if size <= MIB:
            return 2 * MIB
        return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB

    def _insert(self, block: Block) -> None:
        block.free = True
        self._at[block.address] = block
        bisect.insort(self._lists[block.small], (block.size, block.address))

    def _take(self, block: Block) -> None:
        block.free = False
        known = self._lists[block.small]
        del known[bisect.bisect_left(known, (block.size, block.address))]

    def allocate(self, bytes_wanted: int) -> Block:
        size = max(512, -(-bytes_wanted // 512) * 512)
        small = size <= MIB
        known = self._lists[small]
        place = bisect.bisect_left(known, (size, 0))
        if place < len(known):
            block = self._at[known[place][1]]
            self._take(block)
        else:
            block = Block(self._next, self._segment(size), small)
            self._next += block.size + MIB  # segments are no neighbours
            self.reserved += block.size
        rest = block.size - size
        if rest >= 512 if small else rest > MIB:
            other = Block(block.address + size, rest, small, before=block, after=block.after)
            if block.after is not None:
                block.after.before = other
            block.after, block.size = other, size
            self._insert(other)
        return block

    def release(self, block: Block) -> None:
        for other in (block.before, block.after):
            if other is None or not other.free:
                continue
            self._take(other)
            first, second = (other, block) if other is block.before else (block, other)
            first.size += second.size
            first.after = second.after
            if first.after is not None:
                first.after.before = first
            block = first
        self._insert(block)


def replay(events: list[dict[str, Any]]) -> dict[str, int]:
    """Peaks of what was requested and of what the policy reserves for it."""
    policy = CudaPolicy()
    held: dict[int, tuple[Block, int]] = {}
    requested = peak = 0
    for event in events:
        if event["action"] == "alloc":
            held[event["addr"]] = policy.allocate(event["size"]), event["size"]
            requested += event["size"]
            peak = max(peak, requested)
        elif event["action"] == "free_completed" and event["addr"] in held:
            block, size = held.pop(event["addr"])
            policy.release(block)
            requested -= size
    return {"requested": peak, "cuda": policy.reserved}


def measure(way: str, name: str, args: argparse.Namespace) -> dict[str, int]:
    import torch

    import habana_frameworks.torch  # noqa: F401

    memory = torch.hpu.memory
    memory._record_memory_history(context=None)
    step = step_of(way, name, args)
    for _ in range(args.steps):
        step()
    torch.hpu.synchronize()
    events = memory._snapshot()["device_traces"][0]
    figures = replay(events)
    return {**figures, "ours": memory.max_memory_reserved(), "events": len(events)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="bert-base,gpt2,resnet50,lstm")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", type=int, default=FULL, help="2: all models short")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--forward", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], args.one[1], args)))
        return
    rows = []
    results: dict[str, dict[str, int]] = {}
    options = ["--layers", str(args.layers), "--dtype", args.dtype]
    options += ["--steps", str(args.steps), *(["--forward"] if args.forward else [])]
    for name in args.models.split(","):
        for way in WAYS:
            print(f"{name}, {way}", file=sys.stderr, flush=True)
            env = {**os.environ, "PT_HPU_LAZY_MODE": str(int(way == "lazy"))}
            command = [sys.executable, __file__, "--one", way, name, *options]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{name}, {way}:\n{done.stderr}")
            found = json.loads(done.stdout.splitlines()[-1])
            results[f"{name}, {way}"] = found
            row = [name, way, f"{found['requested'] / MIB:,.0f}"]
            for policy in ("ours", "cuda"):
                lost = 100 * (1 - found["requested"] / found[policy])
                row += [f"{found[policy] / MIB:,.0f}", f"{lost:.1f} %"]
            rows.append(row)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    heads = [
        "model",
        "way",
        "peak requested, MiB",
        "ours, MiB",
        "lost",
        "CUDA's policy, MiB",
        "lost",
    ]
    print("\n".join(table(heads, rows)))


if __name__ == "__main__":
    main()
