"""Device memory that is exhausted in a call of a program: there is an error with numbers, and the
device can still be used."""

from __future__ import annotations

import json

import pytest
from processes import output_of

PROGRAM = """
import json, torch
import habana_frameworks.torch

x = torch.ones(4 << 20, device="hpu")

def outputs(x):
    return x + 1, x + 2, x + 3, x * 4

def workspace(x):
    y = x.view(2048, 2048)
    return (y @ y).sort(1)[0].sum() + (y.t().contiguous().cumsum(0) + y.flip(0)).sum()

def saved(x):
    y = x.view(2048, 2048)
    return (((y @ y).sin() @ y).cos() @ y).sum()

told = []
for function in (outputs, workspace, saved):
    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    before = torch.hpu.memory_allocated()
    for _ in range(2):
        try:
            result = compiled(x.clone().requires_grad_(function is saved))
            if function is saved:
                result.backward()
            told.append("fits")
        except torch.OutOfMemoryError as error:
            told.append(str(error))
        result = None
    small = torch.compile(lambda x: x * 2, backend="hpu_backend")(torch.ones(10, device="hpu"))
    told.append([small.sum().item(), torch.hpu.memory_allocated() - before])
    small = None
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told():
    # x and its copy take 16 MiB each.
    printed = output_of(PROGRAM, HPU_EMULATOR_DRAM_BYTES=str(60 << 20)).stdout
    return json.loads(printed.splitlines()[-1])


@pytest.mark.parametrize("place", [0, 1, 2], ids=["outputs", "workspace", "saved values"])
def test_a_call_without_memory(told, place):
    first, second, after = told[3 * place : 3 * place + 3]
    for text in (first, second):
        assert "hpu out of memory: tried to allocate" in text
        for figure in ("free", "total", "in use by tensors", "held in the allocator's cache"):
            assert figure in text
    # The device computes, and holds nothing but the small result.
    assert after[0] == 20
    assert after[1] < 1 << 20
