#!/usr/bin/env python3
"""One contender on one case, in a process of its own; prints one line "FIGURES {json}".

Called by runner.py, which sets cache folders and order. Exit code 1 with a message where the
contender did not do what its name says (a cache that was not used, a silent fallback).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

STARTED = time.perf_counter()

import torch  # noqa: E402
from cases import Case, make_case  # noqa: E402
from models import largest_error, outputs_of  # noqa: E402
from runtimes import onnxruntime, openvino_importer  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
COMPILER_LIBRARIES = ("libSynapseCompiler", "libLLVM", "libclang")
COMPILERS = ("c++", "g++", "gcc", "cc", "clang", "clang++", "ld", "as")
MIN_CALLS = 5
MAX_CALLS = 20_000

Call = Callable[[], Any]


def _compiled(case: Case, **options: Any) -> Call:
    compiled = torch.compile(case.model, **options)
    return lambda: compiled(**case.inputs)


def _inductor(case: Case, **config: bool) -> Call:
    import torch._inductor.config as inductor

    for name, value in config.items():
        setattr(inductor, name, value)
    return _compiled(case, backend="inductor")


def _mega_cache(case: Case) -> Call:
    """Inductor with artifacts that an earlier process saved, loaded into an empty folder."""
    data = Path(os.environ["MEGA_CACHE_FILE"]).read_bytes()
    if torch.compiler.load_cache_artifacts(data) is None:
        raise SystemExit("the mega-cache artifacts were not accepted")
    return _inductor(case)


def _openvino(case: Case) -> Call:
    """OpenVINO's own torch.compile backend, in the precision of the model. Its default on CPUs with
    bf16 instructions is bf16, whatever the model's type."""
    import openvino.torch  # noqa: F401

    hint = {torch.float32: "f32", torch.bfloat16: "bf16"}[case.dtype]
    config = {"INFERENCE_PRECISION_HINT": hint}
    return _compiled(case, backend="openvino", options={"config": config})


def _hpu(case: Case) -> Call:
    import habana_frameworks.torch  # noqa: F401

    model = torch.compile(case.model.to("hpu"), backend="hpu_backend")
    inputs = {name: value.to("hpu") for name, value in case.inputs.items()}

    def call() -> Any:
        result = model(**inputs)
        torch.hpu.synchronize()
        return result

    return call


# Name on the command line -> what it runs. The caller decides which caches it finds.
CONTENDERS: dict[str, Callable[[Case], Call]] = {
    "CPU eager": lambda case: lambda: case.model(**case.inputs),
    "dynamo only": lambda case: _compiled(case, backend="eager"),
    "aot_eager": lambda case: _compiled(case, backend="aot_eager"),
    "inductor": _inductor,
    "inductor freezing": lambda case: _inductor(case, freezing=True),
    # Inductor's own C++ GEMM takes part in the tuning only if weights are constants.
    "inductor max-autotune": lambda case: _inductor(case, freezing=True, max_autotune=True),
    "inductor warm": _inductor,
    "inductor mega-cache": _mega_cache,
    "openvino": _openvino,
    "openvino importer": openvino_importer,
    "onnxruntime": onnxruntime,
    "hpu cold": _hpu,
    "hpu warm": _hpu,
}


def reference(case: Case) -> list[torch.Tensor]:
    """CPU eager's outputs, computed in f32 from the case's weights and inputs, which are
    rounded."""
    inputs = {n: v.float() if v.is_floating_point() else v for n, v in case.inputs.items()}
    return outputs_of(case.model.float()(**inputs))


def steadiness(call: Call, seconds: float) -> dict[str, float]:
    """Milliseconds of single calls, one after the other; how far the median is from the best; and
    the share of the cores' time that they took, including waiting in loops."""
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    times = sorted(measure(call, seconds))
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    middle = statistics.median(times)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "steady_ms": middle,
        "steady_min_ms": times[0],
        "over_best": middle / statistics.mean(times[: max(1, len(times) // 20)]),
        "cores_used": used / wall / len(os.sched_getaffinity(0)),
        "gave_way": (after.ru_nvcsw - before.ru_nvcsw) / len(times),
        "interrupted": (after.ru_nivcsw - before.ru_nivcsw) / len(times),
        "calls": len(times),
    }


def measure(call: Call, seconds: float) -> list[float]:
    """Milliseconds of single calls."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < MIN_CALLS or (time.perf_counter() < end and len(times) < MAX_CALLS):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1e3)
    return times


def mapped_compilers() -> list[str]:
    """The compiler libraries in this process's address space."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    files = {Path(line.split()[-1]).name for line in lines if "/" in line}
    return sorted(name for name in files if name.startswith(COMPILER_LIBRARIES))


def _cache_counters() -> dict[str, int]:
    from torch._dynamo.utils import counters

    inductor, autograd = counters["inductor"], counters["aot_autograd"]
    return {
        "cache_hits": inductor["fxgraph_cache_hit"] + autograd["autograd_cache_hit"],
        "cache_misses": inductor["fxgraph_cache_miss"],
        "autotuned": inductor["select_algorithm_autotune"],
    }


def _check_inductor(contender: str) -> dict[str, Any]:
    counts = _cache_counters()
    wants_hit = contender in ("inductor warm", "inductor mega-cache")
    if wants_hit and (not counts["cache_hits"] or counts["cache_misses"]):
        raise SystemExit(f"{contender} did not run from its cache: {counts}")
    if contender == "inductor" and counts["cache_hits"]:
        raise SystemExit(f"{contender} was not cold: {counts}")
    return counts


def _check_openvino() -> dict[str, Any]:
    """Checks OpenVINO, whose backend falls back to PyTorch, or to Inductor, without a message."""
    from openvino.frontend.pytorch.torchdynamo import execute

    modules = [m for whole in execute.partitioned_modules.values() for m in whole.modules()]
    parts = [m for m in modules if isinstance(m, execute.OpenVINOGraphModule)]
    if not parts:
        raise SystemExit("openvino refused the graph and handed it to Inductor")
    if any(part.perm_fallback for part in parts):
        raise SystemExit("openvino failed on the graph and runs it in PyTorch eagerly")
    return {"openvino_parts": len(parts)}


def _check_hpu(contender: str) -> dict[str, Any]:
    from habana_frameworks.torch.dynamo import report

    summary = report()
    graphs = summary.graphs
    if contender == "hpu warm" and summary.compilations:
        raise SystemExit(f"hpu warm compiled {summary.compilations} graphs")
    if contender == "hpu cold" and summary.hits:
        raise SystemExit(f"hpu cold found {summary.hits} programs in the store")
    figures: dict[str, Any] = {
        "compilations": summary.compilations,
        "eager_segments": summary.eager_segments,
        "recipes": summary.recipes,
        "nodes": sum(graph.nodes for graph in graphs),
    }
    for name in ("key_ms", "fetch_ms", "capture_ms", "compile_ms", "load_ms"):
        figures[name] = sum(getattr(graph, name) for graph in graphs)
    return figures


def identity(contender: str) -> dict[str, Any]:
    """The evidence that the contender did what its name says. Raises SystemExit where it did
    not."""
    if contender in ("CPU eager", "openvino importer", "onnxruntime"):
        return {}
    from torch._dynamo.utils import counters

    figures: dict[str, Any] = {"graphs": counters["stats"]["unique_graphs"]}
    if contender.startswith("inductor"):
        figures |= _check_inductor(contender)
    elif contender == "openvino":
        figures |= _check_openvino()
    elif contender.startswith("hpu"):
        figures |= _check_hpu(contender)
    return figures


def device_counters() -> dict[str, int]:
    """The counts of the emulated device in this process."""
    from habana_frameworks.torch import native

    library = ctypes.CDLL(native.torch_module().library_path())
    size = ctypes.c_size_t()
    text = ctypes.create_string_buffer(4096)
    if library.synEmulatorGetCounters(text, ctypes.c_size_t(len(text)), ctypes.byref(size)):
        raise SystemExit("the device does not report its counters")
    counters: dict[str, int] = json.loads(text.value)
    return counters


def sizes(call: Call) -> dict[str, int]:
    """Sizes of this process's graphs: bytes in the store, bytes of code, and the kernels that one
    call runs."""
    from habana_frameworks.torch.dynamo import report
    from habana_frameworks.torch.dynamo.programs.service import service

    before = device_counters()
    call()
    after = device_counters()
    keys = {graph.content_key for graph in report().graphs}
    manifests = [m for m in service.connect().list() if m["key"] in keys]
    return {
        "program_bytes": sum(m["program"][1] for m in manifests),
        "recipe_bytes": sum(recipe[1] for m in manifests for recipe in m["recipes"]),
        "code_bytes": after["code_bytes_loaded"],
        "kernels": after["kernels"] - before["kernels"],
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("contender", choices=[*CONTENDERS, "reference"])
    parser.add_argument("case")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--reference", metavar="FILE", help="outputs to compare with, or to write")
    parser.add_argument("--save-mega-cache", metavar="FILE")
    parser.add_argument("--sizes", action="store_true", help="hpu only: store, code, kernels")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    warnings.filterwarnings("ignore")
    case = make_case(arguments.case, DTYPES[arguments.dtype])
    contender = arguments.contender
    with torch.inference_mode():
        if contender == "reference":
            torch.save(reference(case), arguments.reference)
            print("FIGURES {}")
            return
        ready = time.perf_counter()
        call = CONTENDERS[contender](case)
        first_output = outputs_of(call())
        first = time.perf_counter()
        steady = steadiness(call, arguments.seconds)
        last_output = outputs_of(call())
    figures: dict[str, Any] = {
        "setup_ms": (ready - STARTED) * 1e3,
        "first_ms": (first - ready) * 1e3,
        **steady,
        "mapped_compilers": mapped_compilers(),
        "compilers_on_path": [name for name in COMPILERS if shutil.which(name)],
        **identity(contender),
    }
    if arguments.reference:
        wanted = torch.load(arguments.reference)
        figures["error"] = max(largest_error(got, wanted) for got in (first_output, last_output))
    if arguments.sizes:
        with torch.inference_mode():
            figures |= sizes(call)
    if arguments.save_mega_cache:
        artifacts = torch.compiler.save_cache_artifacts()
        if artifacts is None:
            raise SystemExit("Inductor has no cache artifacts to save")
        Path(arguments.save_mega_cache).write_bytes(artifacts[0])
    print("FIGURES " + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
