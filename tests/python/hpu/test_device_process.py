"""Behaviour that needs a process of its own: fork, and a library that is missing."""

from __future__ import annotations

import subprocess
import sys

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


SENT = """
import torch.multiprocessing as mp
from torch.utils.data import DataLoader

class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.full((2,), float(i), device="hpu")

def receive(rank, tensors, model):
    assert all(t.device.type == "hpu" for t in (*tensors, *model.parameters()))
    assert [t.dtype for t in tensors] == [torch.float32, torch.bfloat16, torch.bool]
    assert [t.shape for t in tensors] == [(2, 3), (0, 4), ()]
    assert tensors[0].tolist() == [[0, 2, 4], [1, 3, 5]] and tensors[2].item()
    assert isinstance(model.weight, torch.nn.Parameter) and model.weight.requires_grad
    assert not model.bias.requires_grad

if __name__ == "__main__":
    model = torch.nn.Linear(3, 3).to("hpu")
    model.bias.requires_grad_(False)
    tensors = [torch.arange(6.0).reshape(3, 2).to("hpu").t(),
               torch.empty(0, 4, dtype=torch.bfloat16, device="hpu"),
               torch.tensor(True, device="hpu")]
    mp.spawn(receive, (tensors, model), nprocs=1)
    loader = DataLoader(Data(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert [batch.tolist() for batch in loader] == [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]
    try:
        mp.spawn(receive, ((model.weight * 2,), model), nprocs=1)
    except RuntimeError as error:
        assert "send tensor.detach()" in str(error), error
    else:
        raise AssertionError
"""


def test_tensors_are_sent_to_another_process_as_copies(tmp_path):
    script = tmp_path / "sent.py"
    script.write_text("import torch, habana_frameworks.torch\n" + SENT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


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
