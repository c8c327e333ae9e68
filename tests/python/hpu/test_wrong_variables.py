"""Variables of the emulated device with values that it cannot take."""

from __future__ import annotations

import pytest
from processes import run_python

USE = (
    "import torch, habana_frameworks.torch\ntorch.ones(2, device='hpu').add(1).cpu()\nprint('done')"
)


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [
        ("EMULATOR_STRICT", "maybe", "true, false, on, off, yes, no, 1 and 0"),
        ("EMULATOR_COMPILE_THREADS", "-1", "the value must be a number"),
        ("EMULATOR_ISA_LEVEL", "bogus", "x86-64-v2"),
        ("HPU_EMULATOR_PACK_BYTES", "abc", "the value must be a number"),
        ("HPU_EMULATOR_THREADS", "abc", "a number from 1 on"),
        ("HPU_EMULATOR_THREADS", "0", "a number from 1 on"),
    ],
)
def test_a_wrong_value_counts_as_not_set_and_is_said(variable, value, right):
    done = run_python(USE, **{variable: value})
    assert done.returncode == 0 and "done" in done.stdout, done.stderr
    lines = [line for line in done.stderr.splitlines() if f"{variable}={value}" in line]
    assert len(lines) == 1
    assert right in lines[0] and "it counts as not set" in lines[0]


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [
        ("HPU_EMULATOR_MODULES", "abc", "the value must be a number from 1 to 65536"),
        ("HPU_EMULATOR_DRAM_BYTES", "-1", "the value must be a positive number"),
    ],
)
def test_a_wrong_size_of_the_device_is_an_error_that_names_it(variable, value, right):
    done = run_python(USE, **{variable: value})
    assert done.returncode == 1
    assert f"{variable}={value}: {right}" in done.stderr


@pytest.mark.parametrize("value", ["on", "Yes", "TRUE", "1"])
def test_flags_have_several_words(value):
    poisoned = "import torch, habana_frameworks.torch\nx = torch.empty(1 << 16, device='hpu')\n"
    done = run_python(poisoned + "print(x.cpu().isnan().all().item())", EMULATOR_STRICT=value)
    assert "True" in done.stdout, done.stderr
