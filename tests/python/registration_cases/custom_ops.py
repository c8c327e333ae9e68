"""Registrations for operators that torch.library.custom_op makes."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .programs import case, forward, library, with_gradient


def custom(name: str, **more: Any) -> Any:
    @torch.library.custom_op(f"registrations_{name}::op", mutates_args=(), **more)
    def op(x: torch.Tensor) -> torch.Tensor:
        return x * 2.0

    op.register_fake(torch.empty_like)
    return op


formula_op = custom("formula")
formula_op.register_autograd(lambda ctx, g: g * 41.0)


@case
def formula(compiled):
    return with_gradient(compiled, lambda x: formula_op(x) + 1.0)


context_op = custom("context")


def _context(ctx, inputs, output):
    ctx.factor = 41.0


context_op.register_autograd(lambda ctx, g: g * ctx.factor, setup_context=_context)


@case
def context(compiled):
    return with_gradient(compiled, lambda x: context_op(x) + 1.0)


class Factors:
    up = 41.0


method_op = custom("method")
method_op.register_autograd(functools.partial(lambda factor, ctx, g: g * factor, 41.0))


@case
def formula_that_is_a_partial(compiled):
    return with_gradient(compiled, lambda x: method_op(x) + 1.0)


class_op = custom("class")
class_op.register_autograd(lambda ctx, g: g * Factors.up)


@case
def formula_that_reads_a_class(compiled):
    return with_gradient(compiled, lambda x: class_op(x) + 1.0)


def _inner(g):
    return g * 41.0


helper_op = custom("helper")
helper_op.register_autograd(lambda ctx, g: _inner(g))


@case
def helper_of_a_formula(compiled):
    return with_gradient(compiled, lambda x: helper_op(x) + 1.0)


second = library("second")
second.impl("op", lambda x: x * 41.0, "CompositeImplicitAutograd")
chain_op = custom("chain")
chain_op.register_autograd(lambda ctx, g: torch.ops.registrations_second.op(g))


@case
def operator_of_a_formula(compiled):
    return with_gradient(compiled, lambda x: chain_op(x) + 1.0)


@torch.library.custom_op("registrations_kernel::op", mutates_args=())
def kernel_op(x: torch.Tensor) -> torch.Tensor:
    return x * 41.0


kernel_op.register_fake(torch.empty_like)


@case
def kernel(compiled):
    return forward(compiled, lambda x: kernel_op(x) + 1.0)


device_op = custom("device")
device_op.register_kernel("hpu")(lambda x: x * 41.0)


@case
def kernel_for_the_device(compiled):
    return forward(compiled, lambda x: device_op(x) + 1.0)


@torch.library.custom_op("registrations_sizes::op", mutates_args=())
def sizes_op(x: torch.Tensor) -> torch.Tensor:
    return x[: int(41.0) % 10 + 1] * 1.0


sizes_op.register_fake(lambda x: x.new_empty((int(41.0) % 10 + 1, *x.shape[1:])))


@case
def sizes_by_register_fake(compiled):
    return forward(compiled, lambda x: sizes_op(x) + 1.0)


vmap_op = custom("vmap")
vmap_op.register_vmap(lambda info, in_dims, x: (x * 41.0, in_dims[0]))


@case
def rule_of_vmap(compiled):
    return forward(compiled, torch.vmap(lambda x: vmap_op(x) + 1.0))


autocast_op = custom("autocast")
autocast_op.register_autocast("hpu", torch.float16 if 41.0 % 2 else torch.bfloat16)


@case
def type_of_autocast(compiled):
    def function(x):
        with torch.autocast("hpu"):
            return autocast_op(x)

    return forward(compiled, function)


@torch.library.triton_op("registrations_triton::op", mutates_args=())
def triton_like(x: torch.Tensor) -> torch.Tensor:
    return x * 41.0


triton_like.register_fake(torch.empty_like)


@case
def triton_op(compiled):
    return forward(compiled, lambda x: triton_like(x) + 1.0)


dispatch_op = custom("dispatch")


def _dispatch(mode, func, types, args=(), kwargs=None):
    with mode:
        return args[0].new_empty((int(41.0) % 10 + 1, 4))


dispatch_op.register_torch_dispatch(torch._subclasses.FakeTensorMode)(_dispatch)
dispatch_op.register_kernel("hpu")(lambda x: x[: int(41.0) % 10 + 1] * 2.0)


@case
def sizes_by_register_torch_dispatch(compiled):
    return forward(compiled, lambda x: dispatch_op(x) + 1.0)
