"""What needs a process of its own: environment flags read at start, fork, log places."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    preamble = "import torch, habana_frameworks.torch\n"
    return subprocess.run(
        [sys.executable, "-c", preamble + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


FALLBACK = {"PT_HPU_LOG_MOD_MASK": "80", "PT_HPU_LOG_TYPE_MASK": "8"}
TWO_OPS = """
a = torch.zeros(3, 3, dtype=torch.half, device="hpu")
b = torch.ones(2, device="hpu")
torch.tril(a)
b.lgamma_()
"""


def test_fallback_lines_on_the_console():  # guide FALL-3, FALL-4, FALL-6
    result = run(TWO_OPS, ENABLE_CONSOLE="true", **FALLBACK)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert "CPU fallback tril : self=HABANAHalfType" in lines
    assert "CPU fallback lgamma_ : self=HABANAFloatType" in lines


def test_one_type_per_tensor_argument():
    code = """
x = torch.ones(2, device="hpu")
torch.cat([x, x.int()])
torch.where(x > 0, x, x.double())
"""
    lines = run(code, ENABLE_CONSOLE="TRUE", **FALLBACK).stderr.splitlines()
    assert "CPU fallback cat : tensors=HABANAFloatType, tensors=HABANAIntType" in lines
    where = "condition=HABANABoolType, self=HABANAFloatType, other=HABANADoubleType"
    assert f"CPU fallback where : {where}" in lines


def test_masks_select(tmp_path: Path):  # guide FALL-7: DEBUG is off by default
    assert "CPU fallback" not in run(TWO_OPS, ENABLE_CONSOLE="true").stderr
    for module, kind in (("7f", "8"), ("80", "7"), ("0x40", "0xf")):
        result = run(
            TWO_OPS, ENABLE_CONSOLE="1", PT_HPU_LOG_MOD_MASK=module, PT_HPU_LOG_TYPE_MASK=kind
        )
        assert "CPU fallback" not in result.stderr
    result = run(TWO_OPS, ENABLE_CONSOLE="1", PT_HPU_LOG_MOD_MASK="0x80", PT_HPU_LOG_TYPE_MASK="f")
    assert "CPU fallback tril" in result.stderr


def test_wrong_mask_is_named():
    result = run("torch.ones(1, device='hpu')", PT_HPU_LOG_MOD_MASK="everything")
    assert "PT_HPU_LOG_MOD_MASK=everything is not a hexadecimal bit mask" in result.stderr


def test_log_file_places(tmp_path: Path):  # guide LOG-1
    home, logs = tmp_path / "home", tmp_path / "logs"
    home.mkdir()
    result = run(TWO_OPS, HOME=str(home), HABANA_LOGS="", ENABLE_CONSOLE="False", **FALLBACK)
    assert result.returncode == 0 and "CPU fallback" not in result.stderr
    assert "CPU fallback tril : " in (home / ".habana_logs/pytorch_log.txt").read_text()
    run(TWO_OPS, HABANA_LOGS=str(logs), ID="3", **FALLBACK)
    assert "CPU fallback lgamma_ : " in (logs / "3/pytorch_log.txt").read_text()


def test_counters_and_policy():
    code = TWO_OPS + "print(torch.hpu.metrics.metric_global('cpu_fallback').stats())"
    assert "tril" in run(code).stdout
    refused = run(TWO_OPS, PT_HPU_PLACE_ON_CPU="none")
    assert refused.returncode != 0
    assert "aten::tril has no hpu kernel, and PT_HPU_PLACE_ON_CPU=none" in refused.stderr
    partly = run(TWO_OPS, PT_HPU_PLACE_ON_CPU="tril,add")
    assert "aten::lgamma_ has no hpu kernel, and PT_HPU_PLACE_ON_CPU=" in partly.stderr
    assert run(TWO_OPS, PT_HPU_PLACE_ON_CPU="tril,lgamma_").returncode == 0


FORK = """
import os, sys
x = torch.ones(4, device="hpu")
torch.hpu.synchronize()
child = os.fork()
if child == 0:
    try:
        x + 1
    except RuntimeError as error:
        ok = "cannot be used after fork" in str(error)
    try:
        torch.ones(4, device="hpu")
        ok = False
    except RuntimeError as error:
        ok = ok and "fork" in str(error)
    del x
    os._exit(0 if ok else 1)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert (x + 1).sum().item() == 8
"""


def test_fork_after_use_is_a_clear_error():
    result = run(FORK)
    assert result.returncode == 0, result.stderr


WORKERS = """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((2,), float(i))

x = torch.ones(2, device="hpu")
loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2, pin_memory=True,
                                     multiprocessing_context="fork")
total = sum((batch.to("hpu", non_blocking=True) * x).sum().item() for batch in loader)
assert total == 2 * sum(range(8)), total
"""


def test_forked_data_loader_workers():  # guide MEM-3
    result = run(WORKERS)
    assert result.returncode == 0, result.stderr


def test_fork_before_use_is_fine():
    code = """
import os
if (child := os.fork()) == 0:
    os._exit(0 if torch.ones(3, device="hpu").sum().item() == 3 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.ones(3, device="hpu").sum().item() == 3
"""
    result = run(code)
    assert result.returncode == 0, result.stderr


def test_pinned_memory_is_logged():  # guide MEM-4
    result = run(
        "torch.empty(100, pin_memory=True)",
        ENABLE_CONSOLE="true",
        PT_HPU_LOG_MOD_MASK="40",
        PT_HPU_LOG_TYPE_MASK="8",
    )
    assert "pinned alloc bytes=512" in result.stderr


def test_missing_library_is_named():
    result = run("torch.ones(1, device='hpu')", HPU_SYNAPSE_LIBRARY="/nowhere/libSynapse.so")
    assert result.returncode != 0
    assert "/nowhere/libSynapse.so" in result.stderr and "HPU_SYNAPSE_LIBRARY" in result.stderr
    assert (
        "False 0"
        in run(
            "print(torch.hpu.is_available(), torch.hpu.device_count())",
            HPU_SYNAPSE_LIBRARY="/nowhere/libSynapse.so",
        ).stdout
    )
