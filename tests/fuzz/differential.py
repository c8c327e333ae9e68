"""Differential fuzzer: random programs compiled with hpu_backend against CPU eager.

Usage: python tests/fuzz/differential.py [--seed N] [--count N | --minutes M] [...]

Prints the seed of every failing program with its source; exit status 1 if any failed. Compared are
values, dtypes, sizes, strides, which outputs share memory, and what happened to the inputs.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

import torch
from programs import Program, random_program

# Error allowed against the largest magnitude of the result.
TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 4e-2}


def copy_to(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """The tensor on `device` with the same strides."""
    out = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    return out.copy_(tensor)


def storages(tensors: list[torch.Tensor]) -> list[int]:
    """Which tensors share memory: number of the first one over the same storage."""
    pointers = [
        t.untyped_storage().data_ptr() if t.numel() else -1 - i for i, t in enumerate(tensors)
    ]
    return [pointers.index(p) for p in pointers]


def tolerance_of(program: Program, dtype: torch.dtype) -> float:
    narrow = "bfloat16" in program.source or any(x.dtype == torch.bfloat16 for x in program.inputs)
    return TOLERANCE[torch.bfloat16 if narrow else dtype] if dtype.is_floating_point else 0.0


def difference(program: Program, ours: torch.Tensor, eager: torch.Tensor) -> str | None:
    if ours.dtype != eager.dtype or ours.shape != eager.shape:
        return f"{ours.dtype}{list(ours.shape)} instead of {eager.dtype}{list(eager.shape)}"
    if ours.stride() != eager.stride() and eager.numel() > 0:
        return f"strides {ours.stride()} instead of {eager.stride()} for {list(eager.shape)}"
    got, want = ours.cpu().double(), eager.double()
    if got.numel() == 0:
        return None
    scale = max(want.abs().max().item(), 1e-3)
    error = (got - want).abs().max().item()
    if not error <= tolerance_of(program, eager.dtype) * scale:
        return f"largest error {error:g} at magnitude {scale:g}"
    return None


def check(program: Program, backend: str, device: str) -> str | None:
    """None, or what is wrong."""
    function = program.function()
    cpu = [copy_to(x, "cpu") for x in program.inputs]
    with torch.no_grad():
        expected = function(*cpu)
        torch._dynamo.reset()
        compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)
        for call in ("first", "second"):
            moved = [copy_to(x, device) for x in program.inputs]
            results = compiled(*moved)
            for i, (ours, eager) in enumerate(zip(results, expected, strict=True)):
                wrong = difference(program, ours, eager)
                if wrong:
                    return f"{call} call, output {i}: {wrong}"
            if storages([*moved, *results]) != storages([*cpu, *expected]):
                return f"{call} call: other tensors share memory than in eager"
            for i, (ours, eager) in enumerate(zip(moved, cpu, strict=True)):
                wrong = difference(program, ours, eager)
                if wrong:
                    return f"{call} call, input {i} afterwards: {wrong}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="compare compiled random programs with CPU eager")
    parser.add_argument("--seed", type=int, default=None, help="first seed (default: the clock)")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=None, help="instead of a count")
    parser.add_argument("--length", type=int, default=12, help="lines of the longest program")
    parser.add_argument("--backend", default="hpu_backend")
    parser.add_argument("--device", default="hpu")
    arguments = parser.parse_args()
    if arguments.device == "hpu":
        import habana_frameworks.torch  # noqa: F401

    first = int(time.time()) if arguments.seed is None else arguments.seed
    print(f"first seed {first}", flush=True)
    end = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    failed = []
    done = 0
    while (time.monotonic() < end) if end else (done < arguments.count):
        seed = first + done
        program = random_program(seed, arguments.length)
        try:
            wrong = check(program, arguments.backend, arguments.device)
        except Exception:
            wrong = traceback.format_exc(limit=-3)
        if wrong:
            failed.append(seed)
            inputs = [(str(x.dtype), list(x.shape), list(x.stride())) for x in program.inputs]
            print(f"seed {seed}: {wrong}\n{program.source}inputs {inputs}\n", flush=True)
        done += 1
        if done % 50 == 0:
            print(f"{done} programs, {len(failed)} failed", flush=True)
    print(f"{done} programs, {len(failed)} failed {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
