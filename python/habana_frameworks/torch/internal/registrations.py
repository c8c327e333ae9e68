"""Knows what is registered for an operator, and whose code it is.

PyTorch's dispatcher knows that an operator has a kernel for a key and where the registration was
made, but not the kernel itself. So `Library.impl` and its like are wrapped, and a kernel that is
registered through them is kept for as long as its library lives. The package does that before it
imports anything that registers (`watch`). For kernels that user code registered earlier, only their
existence is known and not their content.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.library import Library

from ..torch_compat.dispatcher import dispatch_dump, impls, singleton
from ..torch_compat.ops import OpOverload
from ..torch_compat.replaced import original, replace

_PY_IMPL = "torch._ops.OpOverload.py_impl"

# Namespaces of PyTorch's own operators.
OWN_OPS = frozenset({"aten", "prims", "prim"})
_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
# Modules that register on behalf of their callers.
_ON_BEHALF = ("torch.library", "torch._library")
_ON_BEHALF_FILES = (f"{_TORCH_FOLDER}library.py", f"{_TORCH_FOLDER}_library{os.sep}")
_UNNAMED_KEY = "CompositeImplicitAutograd"

# Kernels of these keys run when the program runs, on tensors with elements. A graph is captured on
# tensors without elements, whose kernels have the key Meta.
_DEVICES = frozenset(
    {"CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA"}
    | {"PrivateUse1", "PrivateUse2", "PrivateUse3", "FPGA", "Vulkan", "Metal"}
)
_OF_A_DEVICE = ("Quantized", "SparseCsr", "Sparse", "NestedTensor", "Mkldnn", "CustomRNGKeyId")
# Lines of an operator's dump that do not describe a kernel.
_HEADINGS = frozenset({"name", "schema", "debug", "alias analysis kind"})
# An operator without a kernel for Meta uses one of these.
_EXPLICIT = frozenset({"CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"})


class _Kernel:
    """One registration, which may be PyTorch's own."""

    def __init__(self, library: Library, function: Callable[..., Any]) -> None:
        self._library = weakref.ref(library)
        self.function = function

    def alive(self) -> bool:
        library = self._library()
        return library is not None and library.m is not None


# (namespace, name with overload, dispatch key): oldest first. The namespace of fallbacks is "_".
_Place = tuple[str, str, str]
_kernels: dict[_Place, list[_Kernel]] = {}
# Registrations for PyTorch's own operators that PyTorch did not make.
_for_own: dict[_Place, None] = {}
# Python kernels (OpOverload.py_impl) for PyTorch's own operators that PyTorch did not make.
_python_for_own: dict[OpOverload, None] = {}
# Python registrations that existed before `watch` and may be somebody else's.
_earlier: frozenset[str] = frozenset()


def _by_torch() -> bool:
    """Whether PyTorch itself registers, of its own accord, or this package does."""
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith((*_ON_BEHALF, __name__, "torch._ops", "contextlib")):
            return module.partition(".")[0] in ("torch", "habana_frameworks")
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _note(library: Library, name: str, key: str, function: Callable[..., Any]) -> None:
    place = (library.ns, name.partition("::")[2] or name, key or library.dispatch_key)
    place = (*place[:2], place[2] or _UNNAMED_KEY)
    found = [kernel for kernel in _kernels.get(place, ()) if kernel.alive()]
    _kernels[place] = [*found, _Kernel(library, function)]
    if library.ns in (*OWN_OPS, "_") and not _by_torch():
        _for_own[place] = None


def watch() -> None:
    """Wraps the functions that register. Call it once, before anything is imported that uses
    them."""
    global _earlier
    if not getattr(torch.__spec__, "_initializing", False):  # else none but PyTorch's are there
        _earlier = frozenset(impls)
    impl, fallback, py_impl = Library.impl, Library.fallback, original(_PY_IMPL)

    @functools.wraps(impl)
    def _impl(self: Library, op_name: Any, fn: Any, dispatch_key: str = "", **more: Any) -> None:
        impl(self, op_name, fn, dispatch_key, **more)
        _note(self, self._resolve_op_name(op_name, "impl"), dispatch_key, fn)

    @functools.wraps(fallback)
    def _fallback(self: Library, fn: Any, dispatch_key: str = "", **more: Any) -> None:
        fallback(self, fn, dispatch_key, **more)
        _note(self, "", dispatch_key, fn)

    @functools.wraps(py_impl)
    def _py_impl(self: OpOverload, k: Any) -> Any:
        if self.namespace in OWN_OPS and not _by_torch():
            _python_for_own[self] = None
        return py_impl(self, k)

    Library.impl = _impl  # type: ignore[method-assign]
    Library.fallback = _fallback  # type: ignore[method-assign]
    replace(_PY_IMPL, _py_impl)


def _newest(place: _Place) -> Callable[..., Any] | None:
    alive = [kernel for kernel in _kernels.get(place, ()) if kernel.alive()]
    return alive[-1].function if alive else None


def kernels_for_own() -> Iterator[tuple[_Place, Callable[..., Any]]]:
    """The kernels that others than PyTorch registered for its operators, for any key, and as
    fallbacks."""
    for place in list(_for_own):
        function = _newest(place)
        if function is not None:
            yield place, function


def python_kernels_for_own() -> Iterator[tuple[str, Callable[..., Any]]]:
    for op in _python_for_own:
        for key, function in (*op.py_kernels.items(), *op.python_key_table.items()):
            name = key.__name__ if isinstance(key, type) else str(key)
            yield f"{op} {name}", function


@functools.cache
def unknown_for_own() -> str:
    """An operator of PyTorch for which others registered something before `watch`; "" if there is
    none."""
    for entry in sorted(_earlier):
        namespace, name, key = entry.split("/")
        if namespace in OWN_OPS:
            text = dispatch_dump(f"{namespace}::{name}")
            for other, place in _registered(text):
                # torch.library.custom_op defines operators, and prims is full of them.
                custom = place.startswith(_ON_BEHALF_FILES[1])
                if other == (key or _UNNAMED_KEY) and not custom and _is_unknown(place):
                    return f"{namespace}::{name}"
    return ""


def overridden(op: OpOverload) -> str:
    """The key of somebody else's kernel that eager code uses for hpu tensors of an operator of
    PyTorch; "" if there is none."""
    if not _for_own:
        return ""
    name = op.name().partition("::")[2]
    for key in ("HPU", "CPU", *_EXPLICIT):
        if (op.namespace, name, key) in _for_own and _newest((op.namespace, name, key)):
            return key
    return ""


def _registered(dump: str) -> Iterator[tuple[str, str]]:
    """The dispatch keys that have a kernel, and where it was registered ("file:line")."""
    for line in dump.splitlines():
        key, _, rest = line.partition(": ")
        if " :: " in rest and key not in _HEADINGS and "(inactive)" not in key:
            place = rest.partition(" :: ")[0].removeprefix("registered at ")
            yield key.replace("[alias]", ""), place


def _is_python(place: str) -> bool:
    return place.rpartition(":")[0].endswith(".py") or place.startswith("<")


def _is_unknown(place: str) -> bool:
    """Whether a Python kernel whose registration was not seen may be somebody else's."""
    file = place.rpartition(":")[0]
    return _is_python(place) and (
        not file.startswith(_TORCH_FOLDER) or file.startswith(_ON_BEHALF_FILES)
    )


def _runs_later(key: str) -> bool:
    for prefix in _OF_A_DEVICE:
        key = key.removeprefix(prefix)
    return key in _DEVICES


def has_derivative(op: OpOverload) -> bool:
    """Whether autograd has a kernel of the operator, or the operator is composed of others."""
    return any(
        key.startswith("Autograd") or key.startswith(_UNNAMED_KEY)
        for key, _ in _registered(dispatch_dump(op.name()))
    )


class Unseen(Exception):
    """A Python kernel that was registered before `watch`, or without torch.library."""


def kernels(op: OpOverload) -> Iterator[tuple[str, Callable[..., Any] | None]]:
    """The kernels through which a graph with the operator may be captured, by key; None for native
    code."""
    namespace, _, name = op.name().partition("::")
    found = dict(_registered(dispatch_dump(op.name())))
    fake = singleton.find(op.name())
    shapes = "Meta" in found or fake.fake_impl.kernel is not None
    for key, place in sorted(found.items()):
        if _runs_later(key) or (shapes and key in _EXPLICIT):
            continue
        if not _is_python(place):
            yield key, None
            continue
        function = _newest((namespace, name, key))
        if function is not None:
            yield key, function
        elif _is_unknown(place):
            raise Unseen(f"{op} has a Python kernel for {key} that was registered too early")
    for kind, function in (*op.py_kernels.items(), *op.python_key_table.items()):
        yield f"Python {kind.__name__ if isinstance(kind, type) else kind}", function
    if fake.fake_impl.kernel is not None:
        yield "fake", fake.fake_impl.kernel.func
    for rules, function in fake.torch_dispatch_rules._data.items():
        yield f"rule of {rules.__module__}.{rules.__qualname__}", function
