"""Differential fuzzer: random programs compiled with hpu_backend against CPU eager and against the
reference interpreter.

Usage: python tests/fuzz/differential.py [--seed N] [--count N | --minutes M] [...]

Prints the first seed, and for every failing program its seed and source; the exit status is 1 if
any failed. Values, dtypes, sizes, strides, which outputs share memory, and the effects on the
inputs are compared. Where bf16 or f16 rounds differently than on this CPU, the exact result
decides.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
import traceback
from collections import Counter
from typing import Any

import reference
import torch
from programs import Program, copy_together, random_program

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from exact_reference import NARROW, ExactReference, is_narrow, unit_roundoff

# The error allowed, relative to the largest magnitude of the result.
TOLERANCE = {torch.float32: 2e-4, torch.float64: 2e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# Results that are nearer than this to eager's results are not compared with exact ones.
NEAR_EAGER = TOLERANCE | {dtype: 4 * unit_roundoff(dtype) for dtype in NARROW}


def storages(tensors: list[torch.Tensor]) -> list[int]:
    """The tensors that share memory: for each tensor, the number of the first one over the same
    storage."""
    pointers = [
        t.untyped_storage().data_ptr() if t.numel() else -1 - i for i, t in enumerate(tensors)
    ]
    return [pointers.index(p) for p in pointers]


def tolerance_of(
    program: Program, dtype: torch.dtype, allowed: dict[torch.dtype, float] = TOLERANCE
) -> float:
    """The tolerance of the coarsest type in the program, because a value that was rounded to it
    stays inexact."""
    if not dtype.is_floating_point:
        return 0.0
    types = {x.dtype for x in program.inputs} | {dtype}
    types |= {t for t in TOLERANCE if f"{t}" in program.source}
    return max(allowed.get(t, 0) for t in types)


def difference(ours: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> str | None:
    """Compares elements only: infinities and NaN must be the same, finite elements must be near."""
    got, want = ours.cpu().double(), wanted.double()
    if got.shape != want.shape:
        return f"{list(got.shape)} instead of {list(want.shape)}"
    if got.numel() == 0:
        return None
    equal = (got == want) | (got.isnan() & want.isnan())
    finite = want[want.isfinite()]
    scale = max(finite.abs().max().item(), 1e-3) if finite.numel() else 1.0
    error = torch.where(equal, 0.0, (got - want).abs())
    # `not <=` also catches NaN.
    wrong = ~(error <= tolerance * scale)
    if not wrong.any():
        return None
    at = tuple(wrong.nonzero()[0].tolist())
    return f"{int(wrong.sum())} of {got.numel()} differ at magnitude {scale:g}: " + (
        f"{got[at].item():g} instead of {want[at].item():g} at {at}"
    )


def addressing(tensor: torch.Tensor) -> list[int]:
    """The strides of the dimensions that have more than one element; none for an empty tensor."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1] if tensor.numel() else []


def check_form(ours: torch.Tensor, eager: torch.Tensor) -> str | None:
    if ours.dtype != eager.dtype or ours.shape != eager.shape:
        return f"{ours.dtype}{list(ours.shape)} instead of {eager.dtype}{list(eager.shape)}"
    if addressing(ours) != addressing(eager):
        return f"strides {ours.stride()} instead of {eager.stride()} for {list(eager.shape)}"
    return None


def farther_than_eager(program: Program, n: int, ours: torch.Tensor, eager: torch.Tensor) -> bool:
    """Whether result n is neither a rounding of the exact result nor as near to it as eager's
    result is."""
    if not any(map(is_narrow, [*program.inputs, eager])):
        return True
    try:
        with torch.no_grad():
            exact = ExactReference(program.function(), *program.inputs)
    except NotImplementedError:
        return True
    return exact.excess(n, ours, eager) is not None


def named(name: str, ours: list[Any], others: list[Any]) -> list[tuple[str, Any, Any]]:
    pairs = zip(ours, others, strict=True)
    return [(f"{name} {i}", *pair) for i, pair in enumerate(pairs)]


class Fuzzer:
    def __init__(self, backend: str, device: str, use_reference: bool) -> None:
        self.device = device
        self.hpu_opt = reference.find_hpu_opt() if use_reference else None
        self.backend = torch._dynamo.lookup_backend(backend)
        self.counts: Counter[str] = Counter()

    def check(self, program: Program) -> str | None:
        """Returns None, or what is wrong."""
        wrong = self._check(program)
        if wrong and self.device != "cpu":
            # The results with tracing alone, which changes strides of functionalized writes and
            # unsafe_split.
            traced = Fuzzer("aot_eager", "cpu", use_reference=False)
            if traced._check(program) == wrong:
                self.counts["aot_eager differs as well"] += 1
                return None
        return wrong

    def _check(self, program: Program) -> str | None:
        function = program.function()
        cpu = copy_together(program.inputs, "cpu")
        recorder = reference.Recorder(self.backend)
        with torch.no_grad(), reference.captured_graphs() as graphs:
            expected = function(*cpu)
            torch._dynamo.reset()
            compiled = torch.compile(function, backend=recorder, fullgraph=True, dynamic=False)
            for call in ("first", "second"):
                moved = copy_together(program.inputs, self.device)
                results = compiled(*moved)
                compared = [
                    *named("output", results, expected),
                    *named("input afterwards", moved, cpu),
                ]
                for n, (name, ours, eager) in enumerate(compared):
                    wrong = check_form(ours, eager)
                    if wrong:
                        return f"{call} call, {name}: {wrong}"
                    near = tolerance_of(program, eager.dtype, NEAR_EAGER)
                    wrong = difference(ours, eager, near)
                    if wrong and farther_than_eager(program, n, ours, eager):
                        return f"{call} call, {name}: {wrong}"
                    if wrong:
                        self.counts["rounded differently than on this CPU"] += 1
                if storages([*moved, *results]) != storages([*cpu, *expected]):
                    return f"{call} call: other tensors share memory than in eager"
        return self._against_reference(program, graphs, recorder)

    def dynamo_refuses(self, program: Program) -> bool:
        """Whether Dynamo cannot trace the program with any backend."""
        torch._dynamo.reset()
        compiled = torch.compile(program.function(), backend="eager", fullgraph=True, dynamic=False)
        try:
            with torch.no_grad():
                compiled(*copy_together(program.inputs, self.device))
        except torch._dynamo.exc.TorchDynamoException:
            self.counts["refused by Dynamo"] += 1
            return True
        return False

    def _against_reference(
        self, program: Program, graphs: list[bytes], recorder: reference.Recorder
    ) -> str | None:
        if self.hpu_opt is None or not graphs or not recorder.calls:
            self.counts["no graph of its own"] += 1
            return None
        if program.special:
            # The interpreter computes windows, means and masks by weights, where 0 * infinity is
            # NaN.
            self.counts["infinities and NaN"] += 1
            return None
        if not all(x.numel() for x in program.inputs):
            # The interpreter's reductions of nothing give the least number, not an error or false.
            self.counts["empty inputs"] += 1
            return None
        if len(set(storages(program.inputs))) < len(program.inputs):
            self.counts["inputs share memory"] += 1
            return None
        report = reference.interpret(self.hpu_opt, graphs[-1], recorder.before)
        if report is None:
            self.counts["ops outside the interpreter"] += 1
            return None
        self.counts["interpreted"] += 1
        tensors = [r for r in recorder.results if isinstance(r, torch.Tensor)]
        for name, ours, value in [
            *named("output", tensors, report["outputs"]),
            *named("input afterwards", recorder.after, report["inputs_after"]),
        ]:
            wanted = reference.as_tensor(value)
            wrong = difference(ours, wanted, tolerance_of(program, ours.dtype))
            if wrong:
                return f"against the reference interpreter, {name} of the graph: {wrong}"
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description="compare compiled random programs with CPU eager")
    parser.add_argument("--seed", type=int, default=None, help="first seed (default: the clock)")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=None, help="instead of a count")
    parser.add_argument("--length", type=int, default=12, help="lines of the longest program")
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), help="the only float type")
    parser.add_argument("--isa", help="compile for this level, x86-64-v2 for example")
    parser.add_argument("--backend", default="hpu_backend")
    parser.add_argument("--device", default="hpu")
    parser.add_argument("--no-reference", action="store_true", help="compare with eager only")
    arguments = parser.parse_args()
    if arguments.isa:
        os.environ["EMULATOR_ISA_LEVEL"] = arguments.isa
    if arguments.device == "hpu":
        import habana_frameworks.torch  # noqa: F401

    first = int(time.time()) if arguments.seed is None else arguments.seed
    narrow = getattr(torch, arguments.dtype) if arguments.dtype else None
    print(f"first seed {first}", flush=True)
    end = time.monotonic() + 60 * arguments.minutes if arguments.minutes else None
    fuzzer = Fuzzer(arguments.backend, arguments.device, not arguments.no_reference)
    failed = []
    done = 0
    while (time.monotonic() < end) if end else (done < arguments.count):
        seed = first + done
        program = random_program(seed, arguments.length, narrow)
        try:
            wrong = fuzzer.check(program)
        except Exception:
            wrong = None if fuzzer.dynamo_refuses(program) else traceback.format_exc(limit=-3)
        if wrong:
            failed.append(seed)
            inputs = [(str(x.dtype), list(x.shape), list(x.stride())) for x in program.inputs]
            print(f"seed {seed}: {wrong}\n{program.source}inputs {inputs}\n", flush=True)
        done += 1
        if done % 50 == 0:
            print(f"{done} programs, {len(failed)} failed", flush=True)
    print(", ".join(f"{name}: {count}" for name, count in sorted(fuzzer.counts.items())))
    print(f"{done} programs, {len(failed)} failed {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
