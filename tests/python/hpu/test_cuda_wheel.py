"""PyTorch's CUDA wheel on a host without a CUDA device, imitated; a command tests the real wheel
(docs/testing.md)."""

from __future__ import annotations

import os

import pytest
import torch
from paths import ROOT
from processes import output_of, run_python

_BUILT_CUDA = ROOT / "build/release/tests/torch/libbuilt_cuda.so"
_BEFORE = f"""
import ctypes, torch
ctypes.CDLL({str(_BUILT_CUDA)!r}).build_cuda()
import habana_frameworks.torch
"""
_USES = {
    "autograd": """
w = torch.full((2, 2), 3.0, device="hpu", requires_grad=True)
((w @ w).relu() * w).sum().backward()
print(w.grad.sum().item())
""",
    "pinned memory": 'print(torch.ones(4).pin_memory().to("hpu").sum().item())',
    "data loader": """
from torch.utils.data import DataLoader
for batch in DataLoader(torch.arange(4.0), batch_size=4, pin_memory=True):
    print(batch.is_pinned(), batch.to("hpu", non_blocking=True).sum().item())
""",
    "accelerator": """
torch.accelerator.synchronize()
print(torch.accelerator.current_accelerator(), torch.accelerator.device_count())
""",
    "stream": """
with torch.Stream() as stream:
    print(stream.device, torch.ones(2, device=0).device)
""",
}
_ANSWERS = {
    "autograd": "216.0",
    "pinned memory": "4.0",
    "data loader": "True 6.0",
    "accelerator": f"hpu {os.environ['HPU_EMULATOR_MODULES']}",
    "stream": "hpu:0 hpu:0",
}

pytestmark = pytest.mark.skipif(
    torch.version.cuda is not None, reason="this is the CUDA wheel: every other test tells it"
)


@pytest.mark.parametrize("use", _USES)
def test_hpu_is_the_accelerator(use):
    done = output_of(_BEFORE + _USES[use], TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout.strip() == _ANSWERS[use]


def test_the_imitation_fails_as_the_wheel_does():
    """Without our hooks it fails; otherwise the test above would prove nothing."""
    done = run_python(
        _BEFORE + _USES["autograd"], TORCH_DEVICE_BACKEND_AUTOLOAD="0", HPU_REPLACE_CUDA_HOOKS="0"
    )
    assert done.returncode == 1
    assert "not linked with support for cuda devices" in done.stderr
