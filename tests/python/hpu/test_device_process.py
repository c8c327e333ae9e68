"""Behaviour that needs a process of its own: fork, and a library that is missing."""

from __future__ import annotations

import subprocess

import pytest
from processes import run_python


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    preamble = "import torch, habana_frameworks.torch\n"
    return run_python(preamble + code, **environment)


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


# The device reserves address space for its memory; under a limit it takes what the limit leaves,
# and does not fail.
LIMITED = """
import os, resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
left = int(os.environ["TEST_LEFT"])
resource.setrlimit(resource.RLIMIT_AS, (used + left, used + left))
free, total = torch.hpu.mem_get_info()
assert left // 8 < total < left, total
x = torch.ones(1000, 1000, device="hpu")
assert torch.mm(x, x).sum().item() == 1e9
"""


@pytest.mark.parametrize("gibibytes", [4, 2])
def test_a_limit_of_address_space(gibibytes: int) -> None:
    result = run(LIMITED, TEST_LEFT=str(gibibytes << 30))
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("device memory is smaller than wanted") == 1, result.stderr
