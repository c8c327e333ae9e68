"""How a process that has used the device ends."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from processes import output_of

_BACKWARD = """
import torch
import habana_frameworks.torch
w = torch.full((2, 2), 3.0, device="hpu", requires_grad=True)
((w @ w).relu() * w).sum().backward()
print(w.grad.sum().item())
"""


def _run(_: int) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _BACKWARD], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_a_process_ends_well_right_after_a_backward_pass():
    """There are more processes than cores, so that autograd's thread is late; 8 % of them
    aborted."""
    with ThreadPoolExecutor(6) as pool:
        ends = list(pool.map(_run, range(20)))
    assert set(ends) == {(0, "216.0", "")}


# The context of the last pass takes a while to go. Autograd's thread drops it after the pass.
_SLOW_TO_DROP = """
import time, torch
from habana_frameworks.torch import native

dropped = []

class Slow:
    def __del__(self):
        time.sleep(0.2)
        dropped.append(True)

class Held(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.slow = Slow()
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

Held.apply(torch.ones(3, device="hpu", requires_grad=True)).backward(torch.ones(3, device="hpu"))
"""


def test_the_last_pass_is_dropped_before_the_interpreter_ends() -> None:
    code = _SLOW_TO_DROP + "native.torch_module().await_autograd_thread()\nprint(dropped)\n"
    assert output_of(code).stdout == "[True]\n"


def test_waiting_for_the_last_pass_calls_no_operator() -> None:
    """An operator may need a program, whose capture asks for the GIL while the interpreter ends."""
    code = _SLOW_TO_DROP + (
        "module = native.torch_module()\n"
        "before = module.op_counts()\n"
        "module.await_autograd_thread()\n"
        "print(dropped, sorted(before), module.op_counts() == before)\n"
    )
    assert output_of(code, EMULATOR_STRICT="1").stdout == "[True] ['mul'] True\n"
