"""Runs vLLM with its plugin for Gaudi on the emulated device, a case in each process.

    ./dev test-client vllm            all cases
    ./dev test-client vllm NAME ...   these cases
    ./dev test-client vllm --list

It prints what each case found, and its exit code is the number of cases that failed. A case fails
if a token is further from the best than bf16 explains (small_models.py), or if it does not do what
its name says (CHECKS). Logs are in build/clients/vllm/logs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[2] / "build" / "clients" / "vllm"
_LIMIT_S = 1800

# vLLM compiles each shape of its buckets before it is ready; a short context has few.
_COMPILED: dict[str, Any] = {
    "family": "llama",
    "prompts": 16,
    "longest": 100,
    "engine": {"enforce_eager": False, "max_model_len": 256, "max_num_seqs": 4},
}

# Offline cases are those of offline.py; the others name a script. `environment` are variables.
CASES: dict[str, dict[str, Any]] = {
    "llama-eager": {"family": "llama"},
    "llama-compiled": _COMPILED,
    "llama-compiled-again": _COMPILED,
    "llama-lazy": {"family": "llama", "environment": {"PT_HPU_LAZY_MODE": "1"}},
    "qwen2-eager": {"family": "qwen2"},
    "qwen3-eager": {"family": "qwen3"},
    "chunked-prefill": {
        "family": "llama",
        "prompts": 16,
        "longest": 400,
        "engine": {"max_num_batched_tokens": 128, "enable_chunked_prefill": True},
    },
    "prefix-caching": {
        "family": "llama",
        "prompts": 16,
        "shared": 256,
        "engine": {"enable_prefix_caching": True},
    },
    "continuous-batching": {"family": "llama", "prompts": 64, "engine": {"max_num_seqs": 4}},
    "contiguous-attention": {
        "family": "llama",
        "prompts": 16,
        "environment": {"VLLM_CONTIGUOUS_PA": "true"},
    },
    "qwen2-compiled": {**_COMPILED, "family": "qwen2"},
    "mixtral-eager": {"family": "mixtral", "prompts": 16, "tokens": 8},
    "qwen3-moe-eager": {"family": "qwen3_moe", "prompts": 16, "tokens": 8},
    "gptq-int4": {
        "family": "llama",
        "prompts": 16,
        "quantized": "gptq",
        "engine": {"quantization": "gptq_hpu"},
    },
    "fp8-blocks": {"family": "llama", "prompts": 16, "quantized": "fp8"},
    # The plugin widens the weights, as long as nothing tells it to round activations as well.
    "fp8-widened": {
        "family": "llama",
        "prompts": 16,
        "quantized": "fp8",
        "environment": {"VLLM_HPU_FORCE_CHANNEL_FP8": "false"},
    },
    "sampling": {"script": "sampling.py"},
    "server": {"script": "server.py"},
}
CHECKS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "llama-compiled": lambda found: found["compilations"] > 0,
    "llama-compiled-again": lambda found: found["compilations"] == 0 and found["hits"] > 0,
    "prefix-caching": lambda found: found["cached_tokens"] > 0,
}
# Activations of these are rounded to 8 bits, which moves logits further than bf16 does.
_ROUNDED_ACTIVATIONS = ("fp8-blocks",)
CHECKS |= dict.fromkeys(
    _ROUNDED_ACTIVATIONS, lambda found: found["best_tokens"] > 0.6 * found["tokens"]
)

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "PT_HPU_LAZY_MODE": "0",
    "CLIENT_MODELS": str(FOLDER / "models"),
    # vLLM gives what is free to its cache of keys and values.
    "HPU_EMULATOR_DRAM_BYTES": str(4 << 30),
}


def run(name: str, cache: str) -> tuple[dict[str, Any] | None, Path]:
    """Returns the case's findings, or None if it failed, and its log. `cache` keeps programs."""
    case = dict(CASES[name])
    environment = os.environ | _ENVIRONMENT | case.pop("environment", {}) | {"HPU_CACHE_DIR": cache}
    script = case.pop("script", "offline.py")
    log = FOLDER / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(HERE / script), json.dumps(case)]
    with log.open("w", encoding="utf-8") as errors:
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=_LIMIT_S,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        return None, log
    found = json.loads(lines[-1])
    wrong = found.get("wrong_tokens", 0) > 0 and name not in _ROUNDED_ACTIVATIONS
    right = not wrong and CHECKS.get(name, lambda _: True)(found)
    return found if right else {"failed": True} | found, log


def main() -> int:
    names = sys.argv[1:] or list(CASES)
    if names == ["--list"]:
        print("\n".join(CASES))
        return 0
    if unknown := [name for name in names if name not in CASES]:
        sys.exit(f"no case is called {unknown[0]}; there are: {', '.join(CASES)}")
    # All cases share a cache that is empty at first, so that a case can find what the one before
    # it has compiled.
    with tempfile.TemporaryDirectory(prefix="hpu-client-") as cache:
        try:
            return sum(not _passes(name, cache) for name in names)
        finally:
            stop = [sys.executable, "-m", "habana_frameworks.torch.cli", "stop"]
            subprocess.run(
                stop, env=os.environ | {"HPU_CACHE_DIR": cache}, stdout=subprocess.DEVNULL
            )


def _passes(name: str, cache: str) -> bool:
    begin = time.perf_counter()
    found, log = run(name, cache)
    seconds = time.perf_counter() - begin
    wrong = found is None or "failed" in found
    text = "an error" if found is None else json.dumps(found)
    print(f"{'FAILED' if wrong else 'ok':6} {name:22} {seconds:6.0f} s  {text}", flush=True)
    if wrong:
        print(f"       {log}", flush=True)
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
