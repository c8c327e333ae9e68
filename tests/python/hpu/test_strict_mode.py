"""The emulator's strict mode (docs/strict_mode.md): programs that a card could run give the same
results, and what a card would not allow is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from paths import TESTS
from processes import output_of, run_python

_STRICT = {"EMULATOR_STRICT": "1"}

_PROGRAM = """
import torch
import habana_frameworks.torch

torch.manual_seed(0)
x, wanted_class = torch.randn(6, 8), torch.tensor([0, 1, 2, 0, 1, 2])

# Eager: recipes, views, writes, CPU kernels on a copy, copies that are not dense, pinned memory.
a = x.to("hpu")
a[1:, ::2].mul_(2)
a.t()[3].copy_(torch.arange(6.0))
b = x.clone()
b[1:, ::2].mul_(2)
b.t()[3].copy_(torch.arange(6.0))
torch.testing.assert_close(a.cpu(), b)
torch.testing.assert_close(a.t()[::2, 1:].cpu(), b.t()[::2, 1:])
torch.testing.assert_close(torch.linalg.qr(a).R.abs().cpu(), torch.linalg.qr(b).R.abs())
torch.testing.assert_close(torch.sort(a, dim=0).indices.cpu(), torch.sort(b, dim=0).indices)
pinned = x.pin_memory().to("hpu", non_blocking=True)
torch.testing.assert_close(pinned.cpu(), x)
assert a[0, 0].item() == b[0, 0].item() and a.sum() < 1000

# Compiled inference, and training.
def made():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3))

model, reference = made().to("hpu"), made()
compiled = torch.compile(model, backend="hpu_backend")
with torch.no_grad():
    for _ in range(4):  # by then the weights are packed and their sources have left memory
        torch.testing.assert_close(compiled(x.to("hpu")).cpu(), reference(x), rtol=1e-4, atol=1e-5)
trained = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, reference)]
for _ in range(3):
    for optimizer, call, device in zip(trained, (compiled, reference), ("hpu", "cpu")):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(call(x.to(device)), wanted_class.to(device))
        loss.backward()
        optimizer.step()
for got, wanted in zip(model.parameters(), reference.parameters()):
    torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-3, atol=1e-4)
from habana_frameworks.torch.dynamo import report
assert all(graph.origin != "eager" for graph in report().graphs), report()
"""

_TOUCH = """
import ctypes, torch
import habana_frameworks.torch
x = torch.ones(4, device="hpu")
torch.hpu.synchronize()
print(ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_float))[1])
"""

_STREAMS = """
import torch
import habana_frameworks.torch
x = torch.ones(1000, device="hpu")
torch.hpu.synchronize()

# The event is older than the write, which is before there is a second stream.
early = torch.hpu.Event()
early.record()
x.mul_(1)
other = torch.hpu.Stream()
other.wait_event(early)
with torch.hpu.stream(other):
    assert x.clone().sum().item() == 1000

compiled = torch.compile(lambda x: x * 2, backend="hpu_backend")

# A copy, a call of an operator, one that the host computes and a graph read what is being written.
results = []
for use in (torch.clone, torch.relu, lambda x: torch.linalg.svdvals(x[None]), compiled):
    x.add_(1)
    with torch.hpu.stream(other):
        results.append(use(x))
    x.add_(1)  # what is being read
results.append(sum(result.sum() for result in results))
with torch.hpu.stream(other):
    x.mul_(10)  # what is being written
    print(x[:2].tolist())

# Memory that another stream reads is freed and made again.
y = torch.full((1000,), 3.0, device="hpu")
with torch.hpu.stream(other):
    z = y * 2
del y
y = torch.full((1000,), 4.0, device="hpu")
print([round(result.sum().item()) for result in results], z.sum().item())
"""


_WAITS_IN_A_CALL = """
import torch
import habana_frameworks.torch

state = {}

# A kernel of the CPU: what it writes is copied to the device after it has returned.
@torch.library.custom_op("tests::late", mutates_args=("x",), device_types="cpu")
def late(x: torch.Tensor) -> None:
    if "other" not in state:
        state["other"] = torch.hpu.Stream()
    for _ in range(2):  # the first one makes the stream after it has recorded the event
        state["other"].wait_stream(torch.hpu.default_stream())
    x += 1

x = torch.zeros(1000, device="hpu")
x.clone().sum().item()  # compiled by now, so that no compilation gives the copy time to end
for _ in range(2):  # the device has one stream when the first call begins, and then two
    torch.ops.tests.late(x)
    with torch.hpu.stream(state["other"]):
        print(x.clone().sum().item())
"""


def test_a_program_for_a_card_runs():
    done = output_of(_PROGRAM, **_STRICT)
    assert "EMULATOR_STRICT" not in done.stderr


def test_a_touch_of_device_memory_is_named():
    assert output_of(_TOUCH, EMULATOR_STRICT="0").stdout == "1.0\n"
    done = run_python(_TOUCH, **_STRICT)
    assert done.returncode == -signal.SIGSEGV
    assert "the host touched device memory; a card would not allow it" in done.stderr


def test_streams_are_ordered_by_the_tensors_that_they_use():
    """No wait and no event is written in the program."""
    for seed in range(3):
        done = output_of(_STREAMS, **_STRICT, EMULATOR_STRICT_SEED=str(seed))
        assert done.stdout == "[90.0, 90.0]\n[2000, 4000, 190, 16000, 22190] 6000.0\n"


def test_a_stream_that_waits_in_the_middle_of_a_call_waits_again():
    for seed in range(3):
        done = output_of(_WAITS_IN_A_CALL, **_STRICT, EMULATOR_STRICT_SEED=str(seed))
        assert done.stdout == "1000.0\n2000.0\n"


@pytest.mark.parametrize(
    "tests",
    [
        ("hpu/test_captures.py", "replay or training or refused or named"),
        ("lazy/test_lazy_mode.py", "writes or random or threads or runs_a_recording"),
        ("lazy/test_lazy_training.py", "lstm or autocast"),
    ],
    ids=["captures", "lazy", "lazy training"],
)
def test_recorded_operators(tests):
    """Tests of HPU graphs and of lazy mode, in short form."""
    path, names = tests
    plain = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, str(TESTS / path), "-k", names],
        env={**os.environ, "EMULATOR_STRICT": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
