"""Kernels and formulas of the operators of libraries."""

from __future__ import annotations

import torch
from torch.library import Library

from .programs import CASES, Case, case, forward, keep, library, with_gradient


def keyed(key: str) -> Case:
    made = library(key.lower())
    made.impl("op", lambda x: x * 2.0, "CompositeExplicitAutograd")
    made.impl("op", torch.empty_like, "Meta")
    if key.startswith("Composite"):
        made = library(key.lower() + "_alone")
    made.impl("op", lambda x: x * 41.0, key)
    op = getattr(torch.ops, made.ns).op

    def run(compiled):
        def function(x):
            with torch.autocast("hpu", enabled="Autocast" in key):
                return op(x) + 1.0

        differentiable = key.startswith(("Auto", "AD", "CompositeImplicit"))
        return (with_gradient if differentiable else forward)(compiled, function)

    return run


for _key in (
    *("Autograd", "AutogradHPU", "ADInplaceOrView", "AutocastHPU", "HPU", "BackendSelect"),
    *("CompositeImplicitAutograd", "CompositeExplicitAutograd"),
):
    CASES[f"kernel for {_key}"] = keyed(_key)

meta = library("meta")
meta.impl("op", lambda x: x[: int(41.0) % 10 + 1] * 2.0, "HPU")
meta.impl("op", lambda x: x.new_empty((int(41.0) % 10 + 1, 4)), "Meta")


@case
def sizes_by_a_meta_kernel(compiled):
    return forward(compiled, lambda x: torch.ops.registrations_meta.op(x) + 1.0)


explicit = library("explicit")
explicit.impl("op", lambda x: x[: int(41.0) % 10 + 1] * 2.0, "CompositeExplicitAutograd")


@case
def sizes_by_an_explicit_kernel(compiled):
    return forward(compiled, lambda x: torch.ops.registrations_explicit.op(x) + 1.0)


info = library("info")
info.impl("op", lambda x: x * 2.0, "CompositeExplicitAutograd")
info.impl("op", torch.empty_like, "Meta")
torch.library.register_autograd("registrations_info::op", lambda ctx, g: g * 41.0)


@case
def formula_of_a_library(compiled):
    return with_gradient(compiled, lambda x: torch.ops.registrations_info.op(x) + 1.0)


batched = library("batched")
batched.impl("op", lambda x: x * 2.0, "CompositeExplicitAutograd")
batched.impl("op", torch.empty_like, "Meta")
torch.library.register_vmap(
    "registrations_batched::op", lambda info, in_dims, x: (x * 41.0, in_dims[0])
)


@case
def rule_of_vmap_of_a_library(compiled):
    return forward(compiled, torch.vmap(lambda x: torch.ops.registrations_batched.op(x) + 1.0))


fragment = keep(Library("registrations_formula", "FRAGMENT"))
fragment.define("more(Tensor x) -> Tensor")
fragment.impl("more", lambda x: x * 41.0, "CompositeImplicitAutograd")


@case
def operator_of_a_fragment(compiled):
    return forward(compiled, lambda x: torch.ops.registrations_formula.more(x) + 1.0)
