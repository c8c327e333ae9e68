"""Code on which a graph depends without showing it (what is registered for its operators, and what
its functions lead to) is in its key. Edited code gives another answer, never a stored one."""

from __future__ import annotations

import json
import math
import struct
import subprocess
from pathlib import Path

import pytest
import torch
from paths import TESTS
from processes import output_of
from torch.library import _scoped_library
from torch.utils.checkpoint import checkpoint as run_again

from habana_frameworks.torch.dynamo import report

DRIVER = TESTS / "registration_process.py"
TIMEOUT_S = 300


def process(cache, number, *names):
    done = output_of(DRIVER, number, *names, timeout=TIMEOUT_S, HPU_CACHE_DIR=str(cache))
    return json.loads(done.stdout.splitlines()[-1])


def flat(values):
    if not isinstance(values, list):
        return [values]
    return [number for value in values for number in flat(value)]


def equal(answer, want):
    """Compares tensors in the form in which the process reports them: types, and elements in
    lists."""
    if isinstance(answer, str) or len(answer) != len(want):
        return False
    for (dtype, got), (wanted, right) in zip(answer, want, strict=True):
        pairs = list(zip(flat(got), flat(right), strict=False))
        if dtype != wanted or len(flat(got)) != len(flat(right)):
            return False
        if not all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3) for a, b in pairs):
            return False
    return True


# Eager code gives the same result whatever the number is, because the edited code is for compilers
# alone.
THE_SAME = {"decomposition"}
# Another process finds these again: one for each way of describing code.
FOUND_AGAIN = (
    *("formula", "formula_of_a_library", "rule_of_vmap", "sizes_by_register_fake"),
    *("kernel for Autograd", "kernel for CompositeImplicitAutograd", "aten sinc for Autograd"),
    *("operator_of_an_allowed_function", "patched_method_of_tensors"),
)


def test_edited_code_gives_another_answer(private_cache):
    """Two processes with one store, started without tracing and traced."""
    first, second = process(private_cache, "41.0"), process(private_cache, "42.0")
    wrong = {
        f"{name}, {way}, process {number}": told[way]
        for number, answers in enumerate((first, second), 1)
        for name, told in answers.items()
        for way in ("start", "traced")
        if not equal(told[way]["answer"], told["want"])
    }
    assert wrong == {} and len(first) >= 40
    assert {name for name in first if first[name]["want"] == second[name]["want"]} == THE_SAME
    again = process(private_cache, "42.0", *FOUND_AGAIN)
    assert all(": hit, " in again[name]["traced"]["graphs"][0] for name in FOUND_AGAIN), again
    started = {name for name in FOUND_AGAIN if not again[name]["start"]["starts"][0][0]}
    assert started >= {"formula", "formula_of_a_library", "sizes_by_register_fake"}, again


EARLY = """
import torch
{register}
import habana_frameworks.torch
f = torch.compile(lambda x: torch.sin(x), backend="hpu_backend")
print(f(torch.ones(2, device="hpu")).cpu().tolist())
from habana_frameworks.torch.dynamo import report
print(report().graphs[-1].reason)
"""


@pytest.mark.parametrize(
    "register",
    [
        'torch.library.impl("aten::sin", "AutogradHPU")(lambda x: x * 41)',
        'library = torch.library.Library("aten", "IMPL")\n'
        'library.impl("sin", lambda x: x * 41, "Autograd")',
    ],
)
def test_what_was_registered_before_the_import_has_no_key(private_cache, register):
    done = output_of(
        EARLY.format(register=register),
        timeout=TIMEOUT_S,
        HPU_CACHE_DIR=str(private_cache),
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    answer, reason = done.stdout.splitlines()[-2:]
    assert answer == "[41.0, 41.0]"
    assert reason == (
        "captured in every process: something was registered for aten::sin before "
        "habana_frameworks.torch was imported"
    )


EXTENSION = """
#include <ATen/ATen.h>
#include <torch/library.h>

double factor = 41.0;

at::Tensor scaled(const at::Tensor& x) { return x * factor; }

TORCH_LIBRARY(registrations_native, m) {
  m.def("op(Tensor x) -> Tensor");
  m.impl("op", c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(scaled));
}
TORCH_LIBRARY_IMPL(aten, AutogradHPU, m) { m.impl("sinc", scaled); }
"""
LOADS = """
import json, sys
import torch

torch.ops.load_library(sys.argv[1])
x = torch.ones(1, device="hpu")
answers = []
for function in (lambda x: torch.ops.registrations_native.op(x) + 1, lambda x: torch.sinc(x) + 1):
    for start in (True, False):
        torch._dynamo.reset()
        options = {"start_without_tracing": start}
        answers.append(torch.compile(function, backend="hpu_backend", options=options)(x).item())
from habana_frameworks.torch.dynamo import report
print(json.dumps([answers, [graph.origin for graph in report().graphs]]))
"""


@pytest.mark.slow
def test_native_code_of_a_loaded_library_is_in_the_key(private_cache, tmp_path):
    """An operator of its own, and one of PyTorch's that it overrides."""
    folder = Path(torch.__file__).parent
    (tmp_path / "extension.cc").write_text(EXTENSION)
    (tmp_path / "41").mkdir()
    library = tmp_path / "41" / "extension.so"
    subprocess.run(
        [
            *("c++", "-std=c++20", "-fPIC", "-shared", f"-I{folder}/include", "-o", str(library)),
            *(f"-I{folder}/include/torch/csrc/api/include", f"-L{folder}/lib"),
            *(str(tmp_path / "extension.cc"), "-ltorch_cpu", "-lc10"),
        ],
        check=True,
        timeout=TIMEOUT_S,
    )
    content, before = library.read_bytes(), struct.pack("<d", 41.0)
    assert content.count(before) == 1
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "extension.so").write_bytes(content.replace(before, struct.pack("<d", 42.0)))

    def run(version):
        library = str(tmp_path / version / "extension.so")
        done = output_of(LOADS, library, timeout=TIMEOUT_S, HPU_CACHE_DIR=str(private_cache))
        return json.loads(done.stdout.splitlines()[-1])

    assert run("41")[0] == [42.0] * 4
    assert run("42")[0] == [43.0] * 4
    answers, origins = run("41")
    assert answers == [42.0] * 4 and set(origins) == {"store", "memory"}


def gradient(f, x):
    x = x.detach().requires_grad_()
    (found,) = torch.autograd.grad(f(x).sum(), x)
    return found.cpu()


@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered")
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize(
    "keys",
    [
        ("CompositeExplicitAutograd",),
        ("HPU", "Meta"),
        ("BackendSelect", "CompositeExplicitAutograd"),
        ("CompositeExplicitAutogradNonFunctional",),
        ("PrivateUse1", "HPU", "Meta"),
    ],
)
def test_a_kernel_without_a_derivative_is_differentiated_as_in_eager_code(keys, checkpoint):
    with _scoped_library("of_kernels", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        for key in keys:
            library.impl("twice", lambda x: x.sin() * 2, key)

        def f(x):
            def g(x):
                return torch.ops.of_kernels.twice(x) * x

            return run_again(g, x, use_reentrant=False) if checkpoint else g(x)

        x = torch.linspace(-1, 1, 5).to("hpu")
        compiled = torch.compile(f, backend="hpu_backend")
        assert torch.equal(gradient(compiled, x), gradient(f, x))
        name = "of_kernels.twice"
        assert report().graphs[-1].reason.startswith(f"{name} has no derivative of its own")


@pytest.mark.parametrize("case", ["no gradient", "integers"])
def test_a_kernel_without_a_derivative_is_compiled_where_none_is_asked_for(case):
    with _scoped_library("of_kernels", "FRAGMENT") as library:
        library.define("rank(Tensor x) -> Tensor")

        @torch.library.impl(library, "rank", "CompositeExplicitAutograd")
        def rank(x):
            return x.detach().argsort() if case == "integers" else x.detach() * 2

        w = torch.tensor(3.0, device="hpu", requires_grad=True)
        x = torch.tensor([3.0, 1.0, 2.0], device="hpu", requires_grad=case == "integers")

        def f(x):
            return torch.ops.of_kernels.rank(x) * w

        compiled = torch.compile(f, backend="hpu_backend")(x)
        assert torch.equal(compiled.cpu(), f(x).cpu())
        assert report().graphs[-1].origin != "eager"
