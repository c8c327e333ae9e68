"""The text of a function has what is registered for the operators that it leads to, and the patches
of what it calls."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.library import _scoped_library

from habana_frameworks.torch.dynamo.fingerprints.function_text import (
    Uncacheable,
    function_text,
    method_text,
    registrations_text,
)


def op_text(name, register, schema="op(Tensor x) -> Tensor", **more):
    """The text of a new operator, for which `register` registers something."""
    with _scoped_library(name, "FRAGMENT") as library:
        library.define(schema, **more)
        register(library)
        return function_text(getattr(torch.ops, name).op.default)


def times(number):
    scope = {}
    exec(f"def f(x, *_): return x * {number}", scope)
    return scope["f"]


IN_A_CAPTURE = (
    *("Autograd", "AutogradHPU", "AutogradCPU", "ADInplaceOrView", "AutocastHPU", "BackendSelect"),
    *("CompositeImplicitAutograd", "CompositeExplicitAutograd", "Functionalize", "Python"),
    *("FuncTorchBatched", "FuncTorchGradWrapper", "PythonTLSSnapshot", "Meta", "Tracer"),
)


@pytest.mark.parametrize("key", IN_A_CAPTURE)
def test_kernels_of_a_capture_are_in_the_text(key):
    texts = [op_text("texts", lambda lib, n=n: lib.impl("op", times(n), key)) for n in (2, 2, 3)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("key", ["HPU", "CPU", "CUDA", "SparseCPU", "QuantizedCPU"])
def test_kernels_of_a_device_run_with_the_program(key):
    texts = [op_text("texts", lambda lib, n=n: lib.impl("op", times(n), key)) for n in (2, 3)]
    assert texts[0] == texts[1]


def test_an_explicit_kernel_runs_with_the_program_where_another_one_tells_the_sizes():
    def register(number):
        def both(library):
            library.impl("op", times(number), "CompositeExplicitAutograd")
            library.impl("op", times(1), "Meta")

        return both

    assert op_text("texts", register(2)) == op_text("texts", register(3))


@pytest.mark.parametrize(
    "register",
    [
        lambda lib, f: torch.library.register_fake("texts::op", f, lib=lib),
        lambda lib, f: torch.library.register_autograd("texts::op", f, lib=lib),
        lambda lib, f: torch.library.register_autograd(
            "texts::op", times(1), setup_context=f, lib=lib
        ),
        lambda lib, f: torch.library.register_vmap("texts::op", f, lib=lib),
        lambda lib, f: torch.library.register_torch_dispatch(
            "texts::op", torch._subclasses.FakeTensorMode, f, lib=lib
        ),
        lambda lib, f: torch.library.impl("texts::op", "Autograd", lib=lib)(f),
        lambda lib, f: torch.ops.texts.op.default.py_impl(torch._C.DispatchKey.Autograd)(f),
        lambda lib, f: torch.ops.texts.op.default.py_impl(torch._subclasses.FakeTensorMode)(f),
    ],
    ids=["fake", "autograd", "context", "vmap", "dispatch", "impl", "python key", "python mode"],
)
def test_every_way_to_register_is_in_the_text(register):
    texts = [op_text("texts", lambda lib, n=n: register(lib, times(n))) for n in (2, 2, 3)]
    assert texts[0] == texts[1] != texts[2]


def test_the_types_of_an_autocast_rule_are_in_the_text():
    def register(dtype):
        return lambda lib: torch.library.register_autocast("texts::op", "hpu", dtype, lib=lib)

    assert op_text("texts", register(torch.float16)) != op_text("texts", register(torch.bfloat16))


@pytest.mark.parametrize(
    "other",
    [
        {"schema": "op(Tensor(a!) x) -> Tensor"},
        {"schema": "op(Tensor x, float by=2.0) -> Tensor"},
        {"schema": "op(Tensor x) -> (Tensor, Tensor)"},
        {"tags": (torch.Tag.nondeterministic_seeded,)},
        {"tags": (torch.Tag.needs_fixed_stride_order,)},
    ],
)
def test_the_schema_and_the_tags_are_in_the_text(other):
    assert op_text("texts", lambda lib: None) != op_text("texts", lambda lib: None, **other)


def test_a_registration_that_is_gone_leaves_the_one_before():
    texts = []
    with _scoped_library("texts", "FRAGMENT") as library:
        library.define("op(Tensor x) -> Tensor")
        library.impl("op", times(2), "Autograd")
        texts.append(function_text(torch.ops.texts.op.default))
        with _scoped_library("texts", "IMPL") as another:
            another.impl("op", times(3), "Autograd")
            texts.append(function_text(torch.ops.texts.op.default))
        texts.append(function_text(torch.ops.texts.op.default))
    assert texts[0] == texts[2] != texts[1]


def test_an_edit_of_any_overload_changes_the_text_of_the_operator():
    def packet(number):
        with _scoped_library("texts", "FRAGMENT") as library:
            library.define("op(Tensor x) -> Tensor")
            library.define("op.more(Tensor x, int y) -> Tensor")
            library.impl("op.more", times(number), "Autograd")
            return function_text(torch.ops.texts.op)

    assert packet(2) == packet(2) != packet(3)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *((name, key) for name in ("sin", "atan2") for key in ("Autograd", "AutogradHPU", "Meta")),
        *(
            ("sin", key)
            for key in ("HPU", "CPU", "AutocastHPU", "FuncTorchBatched", "Functionalize")
        ),
        ("square", "CompositeImplicitAutograd"),
    ],
)
def test_what_others_register_for_pytorchs_operators_is_in_every_key(name, key):
    def text(number):
        with _scoped_library("aten", "IMPL") as library:
            library.impl(name, times(number), key)
            return registrations_text()

    assert registrations_text() == "none"
    assert text(2) == text(2) != text(3)
    assert registrations_text() == "none"


def test_a_fallback_is_in_every_key():
    def text(number):
        with _scoped_library("_", "IMPL") as library:
            library.fallback(times(number), "PrivateUse1")
            return registrations_text()

    assert text(2) == text(2) != text(3)
    assert registrations_text() == "none"


def patched(monkeypatch, owner, name, number):
    monkeypatch.setattr(owner, name, times(number), raising=False)


def allowed(source):
    scope = {"torch": torch, "F": F, "__name__": "somebody"}
    exec(source, scope)
    return scope["f"]


@pytest.mark.parametrize(
    ("owner", "name", "source"),
    [
        (F, "gelu", "def f(x): return F.gelu(x)"),
        (torch, "frac", "def f(x): return torch.frac(x)"),
        (torch.nn.functional, "elu", "def f(x): return torch.nn.functional.elu(x)"),
        (torch.Tensor, "shifted", "def f(x): return x.shifted()"),
        (F, "gelu", "def f(x): return getattr(F, 'gelu')(x)"),
        (F, "gelu", "def f(x):\n    from torch.nn.functional import gelu\n    return gelu(x)"),
        (F, "gelu", "def f(x): return (lambda y: F.gelu(y))(x)"),
        (torch, "norm", "def f(x): return F.normalize(x)"),
        (F, "_unpool_output_size", "def f(x, i): return F.max_unpool2d(x, i, 2)"),
    ],
)
def test_a_patch_is_in_the_text_of_what_leads_to_it(monkeypatch, owner, name, source):
    texts = [function_text(allowed(source))]
    for number in (2, 2, 3):
        patched(monkeypatch, owner, name, number)
        texts.append(function_text(allowed(source)))
    assert texts[1] == texts[2] and len(set(texts)) == 3


def test_a_patch_behind_a_function_of_pytorch_is_in_its_text(monkeypatch):
    assert function_text(F.normalize) == "torch.nn.functional.normalize"
    patched(monkeypatch, torch, "norm", 2)
    text = function_text(F.normalize)
    assert text.startswith("torch.nn.functional.normalize#")
    patched(monkeypatch, torch, "norm", 3)
    assert function_text(F.normalize) != text


def test_a_patched_method_is_in_the_text_of_its_calls(monkeypatch):
    assert method_text("sin") == ".sin"
    texts = []
    for number in (2, 2, 3):
        patched(monkeypatch, torch.Tensor, "sin", number)
        texts.append(method_text("sin"))
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(x): return eval('x')", "calls eval"),
        ("def f(x): return globals()['g'](x)", "calls globals"),
        ("def f(x):\n    import os\n    return x", "imports os"),
        ("def f(x):\n    from . import other\n    return x", "imports from its own package"),
    ],
)
def test_code_that_reaches_anything_has_no_text(source, reason):
    with pytest.raises(Uncacheable, match=reason):
        function_text(allowed(source))


@pytest.mark.parametrize("owner", [F, torch, torch.special, torch.fft, torch.linalg, torch._C._nn])
def test_pytorchs_functions_are_their_names(owner):
    """Nothing that PyTorch itself imports or wraps is taken for a patch."""
    described = []
    for name in dir(owner):
        value = getattr(owner, name)
        if name.startswith("_") or not callable(value) or isinstance(value, type):
            continue
        try:
            text = function_text(value)
        except Uncacheable:
            continue
        if "#" in text:
            described.append(name)
    assert described == []
