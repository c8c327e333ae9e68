"""How an operator of the namespace `hpu` is defined.

One function with a schema defines it. The function computes the operator by PyTorch's operators.
That is at once its result for tensors without elements (meta and fake tensors), its kernel on the
CPU, and what a captured graph holds where the compile server has no rule for the operator. With a
rule (a `composite` row of proto/ops.yaml) the graph holds one call. On hpu tensors the operator has
the kernel of all operators there (backend/torch/record/): an eager call is a recipe, and lazy mode
and HPU graphs record it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from .. import native
from ..torch_compat.ops import OpOverload, writes

Compute = TypeVar("Compute", bound=Callable[..., Any])

_library = torch.library.Library("hpu", "FRAGMENT")
_computations: dict[str, Callable[..., Any]] = {}
_in_thread = threading.local()  # .defines: an operator is being defined


def is_defining() -> bool:
    """Whether this thread defines an operator now."""
    return getattr(_in_thread, "defines", False)


@contextmanager
def _defining() -> Iterator[None]:
    _in_thread.defines = True
    try:
        yield
    finally:
        _in_thread.defines = False


def computation_of(op: OpOverload) -> Callable[..., Any] | None:
    """The function that computes an operator of this package by PyTorch's; None for others."""
    return _computations.get(op.name())


def operator(
    *schemas: str,
    gradient: Callable[..., Any] | None = None,
    save: Callable[..., Any] | None = None,
    results: Callable[..., Any] | None = None,
    draws: bool = False,
) -> Callable[[Compute], Compute]:
    """Defines an operator by the schemas of its overloads, whose namespace is left out.

    gradient, save: a formula of torch.library.register_autograd for an operator of one overload;
    without one there is no derivative. results: makes tensors like the results faster than the
    function does. draws: the operator draws random numbers."""

    def define(compute: Compute) -> Compute:
        tags = [torch.Tag.nondeterministic_seeded] if draws else []
        with _defining():
            for schema in schemas:
                _define(schema, compute, results or compute, tags)
            if gradient is not None:
                name = schemas[0].partition("(")[0]
                torch.library.register_autograd(
                    f"hpu::{name}", gradient, setup_context=save, lib=_library
                )
        return compute

    return define


def _define(
    schema: str, compute: Callable[..., Any], results: Callable[..., Any], tags: list[torch.Tag]
) -> None:
    name = schema.partition("(")[0]
    qualified = f"hpu::{name}"
    _library.define(schema, tags=tags)
    if writes(schema):
        _library.impl(name, compute, "CompositeImplicitAutograd")
        # Without this, functionalization refuses an operator that has a kernel for a device.
        _library.impl(name, compute, "Functionalize")
    else:
        _library.impl(name, compute, "CompositeExplicitAutograd")
        torch.library.register_fake(qualified, results, lib=_library)
    base, _, overload = qualified.partition(".")
    native.torch_module().register_op_kernel(base, overload)
    _computations[qualified] = compute
