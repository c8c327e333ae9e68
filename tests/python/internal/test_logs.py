"""TORCH_LOGS: the lines of hpu_backend about every graph."""

from __future__ import annotations

import logging
import subprocess

import torch
from processes import output_of

import habana_frameworks.torch  # noqa: F401  registers the device

SCRIPT = """
import torch
import habana_frameworks.torch
from habana_frameworks.torch.dynamo.compile_backend import shared_layer

shared_layer.logger.set_store_data(True)

@torch.no_grad()
def run(function):
    torch.compile(function, backend="hpu_backend")(torch.ones(4, device="hpu"))

run(lambda x: torch.relu(x) + 1)
run(lambda x: torch.lgamma(x) + 1)
print("\\n".join(shared_layer.logger.data))
"""


def run_with(cache, **variables: str) -> subprocess.CompletedProcess[str]:
    return output_of(SCRIPT, timeout=300, HPU_CACHE_DIR=str(cache), **variables)


def test_levels_tell_hits_eager_segments_and_key_factors(private_cache):
    first = run_with(private_cache, TORCH_LOGS="habana_frameworks.torch.dynamo")
    assert "graph_0: miss, compiled, key " in first.stderr
    assert "  eager: %0 = aten::lgamma(%1)" in first.stderr
    assert "key factor" not in first.stderr
    assert "Node: lgamma requires fallback: True" in first.stdout
    assert "Node: relu requires fallback: False" in first.stdout
    second = run_with(private_cache, TORCH_LOGS="+habana_frameworks.torch.dynamo").stderr
    assert "graph_0: hit, store, key " in second
    assert "graph_1: hit, store, key " in second
    assert "graph_0: key factor isa_level = " in second
    # The lines have torch's own format, and name the module that writes them.
    assert any("binding.py" in line and "graph_0: hit" in line for line in second.splitlines())
    assert "graph_0" not in run_with(private_cache).stderr


def test_set_logs_takes_the_same_name():
    logger = logging.getLogger("habana_frameworks.torch.dynamo")
    try:
        torch._logging.set_logs(modules={logger.name: logging.INFO})
        assert logger.isEnabledFor(logging.INFO) and not logger.isEnabledFor(logging.DEBUG)
    finally:
        torch._logging.set_logs()
