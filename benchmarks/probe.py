#!/usr/bin/env python3
"""Figures other than times of whole models, each in a process of its own; prints "FIGURES {json}".

    probe.py peak|fetch|overhead|memory|inductor-memory CASE [--dtype D]

Called by runner.py, which sets the cache folders.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from cases import Case, make_case
from contender import CONTENDERS, DTYPES, Call, measure
from figures import peak_live_bytes
from models import outputs_of

ROOT = Path(__file__).resolve().parent.parent
GEMM_PEAK = ROOT / "build/release/benchmarks/gemm_peak/gemm_peak"
PEAK_ROUNDS = 8
TRACE_ALL = 1  # synTraceAll


def count_flops(case: Case) -> int:
    """The floating-point operations of products and convolutions. Attention counts as the two full
    products of its formula, causal or not."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        case.model(**case.inputs)
    return int(counter.get_total_flops())


def machine_peak(threads: int) -> dict[str, Any]:
    """The multiply-add peak and read bandwidth of this machine now, from gemm_peak --machine."""
    if not GEMM_PEAK.exists():
        raise SystemExit(f"{GEMM_PEAK} is missing: build it with ./dev build")
    command = [str(GEMM_PEAK), "--machine", "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peaks: dict[str, Any] = json.loads(done.stdout)
    return peaks


def last_level_cache() -> int:
    """Bytes of the first CPU's largest cache; 0 where the system does not report it."""
    files = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((int(file.read_text().strip().removesuffix("K")) << 10 for file in files), default=0)


def weights_read(model: torch.nn.Module) -> set[torch.Tensor]:
    """Parameters and buffers that a call reads completely. Tables of embeddings are not among them,
    unless another module has them too."""
    found: set[torch.Tensor] = set()
    for module in model.modules():
        if not isinstance(module, torch.nn.Embedding):
            found.update(module.parameters(recurse=False), module.buffers(recurse=False))
    return found


def peak(case: Case) -> dict[str, Any]:
    """How near the whole model comes to the limit of the machine; model and machine are measured in
    turn. The limit is the operations at the multiply-add peak, or the reading of weights that no
    cache holds, whichever takes longer."""
    flops = count_flops(case)
    weights = sum(tensor.nbytes for tensor in weights_read(case.model))
    streamed = weights if weights > last_level_cache() else 0
    name = "bf16_gflops" if case.dtype == torch.bfloat16 else "f32_gflops"
    call = CONTENDERS["hpu warm"](case)
    call()
    threads = len(os.sched_getaffinity(0))
    shares, peaks, reads, limits, times = [], [], [], [], []
    instructions = ""
    for _ in range(PEAK_ROUNDS):
        now = machine_peak(threads)
        instructions = now["bf16_instructions"]
        times.append(statistics.median(measure(call, 0.3)))
        peaks.append(now[name])
        reads.append(now["read_gbytes"])
        limits.append(max(flops / now[name], streamed / now["read_gbytes"]) * 1e-6)
        shares.append(flops / times[-1] * 1e-6 / now[name])
    return {
        "gflop": flops * 1e-9,
        "weights_mb": weights * 1e-6,
        "steady_ms": statistics.median(times),
        "peak_gflops": statistics.median(peaks),
        "read_gbytes": statistics.median(reads),
        "share": statistics.median(shares),
        "limit_ms": statistics.median(limits),
        "bf16_instructions": instructions,
    }


def fetch(case: Case) -> dict[str, Any]:
    """Milliseconds from Dynamo's graph to a loaded program that the store has. The first key finds
    the connection to the running daemon made while Dynamo traced; each further one waits for a new
    connection, because the daemon's build is part of the key. A start without tracing would know
    the key."""
    if "habana_frameworks.torch" not in sys.modules:
        raise SystemExit("PyTorch did not load the package: it is measured as users have it")
    os.environ["HPU_START_WITHOUT_TRACING"] = "0"
    call = CONTENDERS["hpu warm"](case)
    from habana_frameworks.torch import dynamo
    from habana_frameworks.torch.dynamo.programs.service import service

    def take() -> dict[str, float]:
        call()
        (graph,) = dynamo.report().graphs
        if graph.origin != "store":
            raise SystemExit(f"the program came from: {graph.origin}")
        parts = {name: getattr(graph, name) for name in ("key_ms", "fetch_ms", "load_ms")}
        return {**parts, "total_ms": sum(parts.values())}

    first = take()
    again = []
    for _ in range(5):
        dynamo.reset()
        service.reset()
        torch._dynamo.reset()
        again.append(take())
    return {**first, "again_ms": statistics.median(run["total_ms"] for run in again)}


class Trace:
    """A trace of the emulated device: the library's activity between start and stop."""

    def __init__(self) -> None:
        from habana_frameworks.torch import native

        self._library = ctypes.CDLL(native.torch_module().library_path())

    def of(self, run: Callable[[], Any]) -> list[dict[str, Any]]:
        """The events in Trace Event Format; times are in microseconds."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self._check(self._library.synConfigurationSet(b"EMULATOR_TRACE_FILE", path.encode()))
            self._check(self._library.synProfilerStart(TRACE_ALL, 0))
            run()
            self._check(self._library.synProfilerStop(TRACE_ALL, 0))
            events = json.loads(Path(path).read_text())["traceEvents"]
        return [event for event in events if event["ph"] == "X"]

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            raise SystemExit(f"a profiler call of the device failed with status {status}")


def _microseconds(run: Callable[[], Any], calls: int) -> float:
    times = []
    for _ in range(calls):
        started = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - started)
    return statistics.median(times) * 1e-3


# The number of inputs of the program: one, and as many as a BERT-base has with its parameters.
CALLS = {"call of 1 tensor": 1, "call of 200 tensors": 200}


def overhead(inputs: int) -> dict[str, Any]:
    """Microseconds of one call of a program with one launch of next to no work, without guards: the
    function that Dynamo calls is called here directly.

    call: until the result is there. enqueue: until the call returns. launch: inside synLaunch.
    kernel: the computation itself."""
    import habana_frameworks.torch  # noqa: F401
    from habana_frameworks.torch.dynamo.compile_backend import hpu_backend

    bound: list[Callable[..., Any]] = []

    def keep(gm: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        bound.append(hpu_backend(gm, inputs))
        return bound[-1]

    tensors = [torch.ones(8, device="hpu") for _ in range(inputs)]

    def total(*tensors: torch.Tensor) -> torch.Tensor:
        return sum(tensors, 1.0)

    torch.compile(total, backend=keep)(*tensors)
    (program,) = bound

    def call() -> None:
        program(*tensors)
        torch.hpu.synchronize()

    def enqueue() -> float:
        started = time.perf_counter_ns()
        program(*tensors)
        taken = time.perf_counter_ns() - started
        torch.hpu.synchronize()
        return taken * 1e-3

    calls = 2000
    _microseconds(call, calls)
    call_us = _microseconds(call, calls)
    enqueue_us = statistics.median(enqueue() for _ in range(calls))
    events = Trace().of(lambda: _microseconds(call, calls))
    launches = [event["dur"] for event in events if event["name"].startswith("synLaunch")]
    kernels = [event["dur"] for event in events if event["pid"] == 1]
    if len(launches) != calls:
        raise SystemExit(f"{calls} calls made {len(launches)} launches")
    return {
        "call_us": call_us,
        "enqueue_us": enqueue_us,
        "launch_us": statistics.median(launches),
        "kernel_us": sum(kernels) / calls,
    }


def hpu_memory(case: Case) -> dict[str, Any]:
    """The workspace of the case's recipes and the buffers between them, in bytes."""
    CONTENDERS["hpu warm"](case)()
    from habana_frameworks.torch import dynamo, native
    from habana_frameworks.torch.dynamo.programs.service import service

    library = ctypes.CDLL(native.torch_module().library_path())
    most = 0
    recipes = 0
    for graph in dynamo.report().graphs:
        stored = service.connect().get_content(bytes.fromhex(graph.content_key))
        for recipe in stored.recipes:
            data = bytes(recipe)
            handle, size = ctypes.c_void_p(), ctypes.c_uint64()
            made = library.synEmulatorRecipeDeserialize(
                ctypes.byref(handle), data, ctypes.c_size_t(len(data))
            )
            if made or library.synWorkspaceGetSize(ctypes.byref(size), handle):
                raise SystemExit("the recipe does not say its workspace")
            library.synRecipeDestroy(handle)
            most = max(most, size.value)
            recipes += 1
    return {"workspace_bytes": most, "recipes": recipes}


def allocations(call: Call) -> tuple[list[tuple[int, int]], Any]:
    """(address, bytes) of the memory that PyTorch's CPU allocator gives in a call, and takes back
    (negative), in order of time; and the call's result."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True) as p:
        result = call()
    events = []
    pending = list(p.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending += event.children
        fields = event.extra_fields
        if type(fields).__name__ == "_ExtraFields_Allocation":
            events.append((event.start_time_ns, fields.ptr, fields.alloc_size))
    return [(pointer, size) for _, pointer, size in sorted(events)], result


def inductor_memory(case: Case) -> dict[str, Any]:
    """The peak in bytes of the buffers that one call allocates and frees again. Outputs, and memory
    that oneDNN or MKL allocate for themselves, are not counted."""
    call: Call = CONTENDERS["inductor"](case)
    call()
    events, result = allocations(call)
    outputs = sum(t.untyped_storage().nbytes() for t in outputs_of(result))
    peak = peak_live_bytes(events)
    return {"workspace_bytes": peak, "allocations": len(events), "output_bytes": outputs}


PROBES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "peak": peak,
    "fetch": fetch,
    "overhead": overhead,
    "memory": hpu_memory,
    "inductor-memory": inductor_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("probe", choices=PROBES)
    parser.add_argument("case", help=f"a case of cases.py; for overhead: {', '.join(CALLS)}")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    subject: Case | int
    if arguments.probe == "overhead":
        subject = CALLS[arguments.case]
    else:
        subject = make_case(arguments.case, DTYPES[arguments.dtype])
    with torch.inference_mode():
        figures = PROBES[arguments.probe](subject)
    print("FIGURES " + json.dumps(figures), flush=True)


if __name__ == "__main__":
    sys.exit(main())
