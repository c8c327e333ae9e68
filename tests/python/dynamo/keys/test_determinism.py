"""Bits do not depend on the number of threads, on the process, or on other load."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from helpers import fresh_process
from paths import TESTS

from habana_frameworks.torch import native

THREADS = (1, 2, 3, 5)


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


WINOGRAD = "conv of many channels"
PIECES = {
    "gemm": (lambda a, b: a @ b, tensor(197, 311), tensor(311, 173)),
    "gemm of few rows": (lambda a, b: F.linear(a, b), tensor(1, 768), tensor(1031, 768)),
    "gemm with epilogue": (
        lambda a, b, c: F.gelu(F.linear(a, b, c)),
        tensor(65, 129),
        tensor(257, 129),
        tensor(257),
    ),
    "batched gemm": (lambda a, b: a @ b, tensor(7, 33, 65), tensor(7, 65, 31)),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1), tensor(2, 19, 29, 31), tensor(37, 19, 3, 3)),
    WINOGRAD: (lambda x, w: F.conv2d(x, w, padding=1), tensor(3, 64, 15, 9), tensor(72, 64, 3, 3)),
    "depthwise conv": (
        lambda x, w: F.conv2d(x, w, groups=32, padding=1),
        tensor(1, 32, 30, 30),
        tensor(32, 1, 3, 3),
    ),
    "attention": (
        F.scaled_dot_product_attention,
        *(tensor(2, 3, 129, 64) for _ in range(3)),
    ),
    "attention of one query": (
        F.scaled_dot_product_attention,
        tensor(1, 4, 1, 64),
        tensor(1, 4, 517, 64),
        tensor(1, 4, 517, 64),
    ),
    "softmax": (lambda x: torch.softmax(x, -1), tensor(37, 1031)),
    "layer norm": (lambda x: F.layer_norm(x, [769]), tensor(131, 769)),
    "sum of everything": (lambda x: x.sum(), tensor(1_000_003)),
    "mean over the outer dimension": (lambda x: x.mean(0), tensor(1031, 257)),
    "cumsum": (lambda x: x.cumsum(0), tensor(1031, 17)),
    "var": (lambda x: x.var(1), tensor(67, 3001)),
}


def bits(value: torch.Tensor) -> torch.Tensor:
    value = value.cpu()
    return value.view({4: torch.int32, 2: torch.int16}[value.element_size()])


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.hpu.set_num_threads
    torch.set_num_threads(before)
    torch.hpu.set_num_threads(len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("piece", PIECES)
def test_number_of_threads(piece, dtype, threads):
    function, *inputs = PIECES[piece]
    fresh_process()
    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    moved = [x.to(dtype).to("hpu") for x in inputs]
    with torch.no_grad():
        threads(1)
        first = bits(compiled(*moved))
        for count in THREADS[1:]:
            threads(count)
            torch.set_num_threads(count)
            for _ in range(3):
                assert torch.equal(bits(compiled(*moved)), first), f"{count} threads"


@pytest.mark.parametrize("place", ["", "none"])
def test_eager_ops(threads, monkeypatch, place):
    """The bits of eager ops do not depend on the device's threads: neither those of PyTorch's
    kernels, which run the first calls, nor those of programs.

    PyTorch's products depend on its own number of threads on some CPUs.
    """
    module = native.torch_module()
    monkeypatch.setenv("PT_HPU_PLACE_ON_CPU", place)
    module.reload_log_settings()
    x = tensor(301, 4001)
    moved = x.to("hpu")
    results = []
    try:
        for count in THREADS:
            module.forget_call_programs()
            threads(count)
            torch.set_num_threads(count)
            results.append([bits(torch.softmax(moved, 1)), bits(moved.sum(0))])
            product = bits(moved @ moved.t())
            if place == "none":
                results[-1].append(product)
            else:
                assert torch.equal(product, bits(x @ x.t())), f"{count} threads"
    finally:
        monkeypatch.undo()
        module.reload_log_settings()
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_torch_computes_meanwhile():
    """PyTorch's own threads and the device's compute at the same time."""
    function, *inputs = PIECES["gemm with epilogue"]
    fresh_process()
    compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
    moved = [x.to("hpu") for x in inputs]
    a = tensor(300, 300)
    with torch.no_grad(), ThreadPoolExecutor(1) as pool:
        alone, product = bits(compiled(*moved)), a @ a
        busy = pool.submit(lambda: [a @ a for _ in range(50)])
        for _ in range(50):
            assert torch.equal(bits(compiled(*moved)), alone)
        for other in busy.result():
            torch.testing.assert_close(other, product)


def run_in_both_modes(function, *inputs):
    """Results outside and inside PyTorch's deterministic mode."""
    moved = [x.to("hpu") for x in inputs]
    results = []
    with torch.no_grad():
        for deterministic in (False, True):
            fresh_process()
            torch.use_deterministic_algorithms(deterministic)
            try:
                compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
                results.append(compiled(*moved).cpu())
            finally:
                torch.use_deterministic_algorithms(False)
    return results


@pytest.mark.parametrize("name", sorted(set(PIECES) - {WINOGRAD}))
def test_deterministic_mode_changes_no_bit(name):
    plain, deterministic = run_in_both_modes(*PIECES[name])
    assert torch.equal(bits(plain), bits(deterministic))


def test_deterministic_mode_takes_the_direct_form_of_convolutions():
    """docs/decisions/0009: a huge pixel under a tap of zero leaves no trace in the direct form."""
    weight = tensor(32, 64, 3, 3)
    weight[:, :, :, 2] = 0
    x = tensor(1, 64, 16, 16)
    x[..., 7] = 1e8
    plain, deterministic = run_in_both_modes(lambda a, b: F.conv2d(a, b, padding=1), x, weight)
    exact = F.conv2d(x.double(), weight.double(), padding=1)[..., 6]
    assert (deterministic[..., 6] - exact).abs().max() < 1e-4
    assert (plain[..., 6] - exact).abs().max() > 1e-1


CHILD = """
import sys
sys.path[:0] = {folders!r}
import torch
import habana_frameworks.torch
from test_determinism import PIECES, digest
torch._dynamo.config.cache_size_limit = 64
print(digest())
"""


def digest() -> str:
    """A digest of the results of all pieces."""
    state = hashlib.sha256()
    with torch.no_grad():
        for function, *inputs in PIECES.values():
            torch._dynamo.reset()
            compiled = torch.compile(function, backend="hpu_backend", dynamic=False)
            state.update(bits(compiled(*(x.to("hpu") for x in inputs))).numpy().tobytes())
    return state.hexdigest()


def test_one_core_and_two_processes_at_once():
    """On one CPU by affinity, on all CPUs, and in two processes at the same time."""
    code = CHILD.format(folders=[str(TESTS), str(Path(__file__).parent)])
    cpu = str(min(os.sched_getaffinity(0)))
    commands = [["taskset", "-c", cpu, sys.executable], [sys.executable], [sys.executable]]
    processes = [
        subprocess.Popen([*command, "-c", code], stdout=subprocess.PIPE, text=True)
        for command in commands
    ]
    printed = [process.communicate(timeout=600)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len({words[-1] for words in printed}) == 1
