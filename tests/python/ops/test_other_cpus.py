"""Numbers are right on other CPUs too: with PyTorch's kernels for fewer instructions, and the
device's code for lower levels.

Results in bf16 and f16 are compared with exact ones (exact_reference.py), because PyTorch's own
results change with its capability. So every pair that some x86-64 machine has must pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from paths import TESTS

from habana_frameworks.torch import native

CAPABILITIES = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "default": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}
LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16", "x86-64-v4-amx"]
CASES = TESTS / "other_cpu_cases.py"


@pytest.fixture(scope="module")
def levels() -> list[str]:
    """The levels that this machine runs; the highest one is its own."""
    return LEVELS[: LEVELS.index(native.torch_module().isa_level()) + 1]


# Levels that machines have, with the lower capabilities that their environment can request.
PAIRS = [
    ("x86-64-v2", "default"),
    ("x86-64-v3", "default"),
    ("x86-64-v3", "avx2"),
    ("x86-64-v4", "avx2"),
    ("x86-64-v4-bf16", "avx2"),
]


@pytest.mark.parametrize(("level", "capability"), PAIRS)
def test_numbers(level, capability, levels, private_cache):
    if level not in levels:
        pytest.skip(f"this machine runs {', '.join(levels)}")
    environment = os.environ | CAPABILITIES[capability]
    environment |= {"EMULATOR_ISA_LEVEL": level, "HPU_CACHE_DIR": str(private_cache)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(CASES)],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["wrong"] == {}
    assert answer["level"] == level
    assert answer["capability"] == capability.upper()
    assert answer["cases"] > 50
