"""Functions that a graph calls as a whole, and what they lead to."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F

from .programs import CASES, Case, case, forward, with_gradient


@torch.compiler.allow_in_graph
def whole_of_an_operator(x):
    return torch.ops.registrations_second.op(x)


@case
def operator_of_an_allowed_function(compiled):
    return forward(compiled, lambda x: whole_of_an_operator(x) + 1.0)


@torch.compiler.allow_in_graph
def whole_of_functional(x):
    return F.softplus(x) + torch.frac(x)


def patched(owner: Any, name: str, function: Any, call: Any) -> Case:
    def run(compiled):
        before = getattr(owner, name)
        made = function(before)
        setattr(owner, name, made)
        try:
            return forward(compiled, call)
        finally:
            setattr(owner, name, before)

    return run


def _times(before):
    @functools.wraps(before)
    def scaled(*args, **kwargs):
        return before(*args, **kwargs) * 41.0

    return scaled


CASES["patched function of an allowed function"] = patched(
    F, "softplus", _times, lambda x: whole_of_functional(x) + 1.0
)
CASES["patched function of a module in an allowed function"] = patched(
    torch, "frac", _times, lambda x: whole_of_functional(x) + 1.0
)
CASES["patched function that says it is torch's"] = patched(
    torch, "trunc", lambda before: torch.compiler.allow_in_graph(_times(before)),
    lambda x: torch.trunc(x) + 1.0,
)  # fmt: skip


@torch.compiler.allow_in_graph
def whole_of_a_method(x):
    return x.scaled_by_somebody()


@case
def patched_method_of_tensors(compiled):
    torch.Tensor.scaled_by_somebody = lambda self: self * 41.0
    try:
        return forward(compiled, lambda x: whole_of_a_method(x) + 1.0)
    finally:
        del torch.Tensor.scaled_by_somebody


CASES["patched function behind a function of torch"] = patched(
    F, "_unpool_output_size", lambda before: lambda *a, **k: (int(41.0) % 10 + 4,),
    lambda x: F.max_unpool1d(x, torch.arange(4).expand(3, 4).contiguous().to("hpu"), 1),
)  # fmt: skip


def from_a_variable(x):
    return getattr(F, "logsigmoid")(x)  # noqa: B009


@torch.compiler.allow_in_graph
def whole_by_text(x):
    return from_a_variable(x)


CASES["patched function by text"] = patched(
    F, "logsigmoid", _times, lambda x: whole_by_text(x) + 1.0
)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, g):
        return g * 41.0


@case
def autograd_function(compiled):
    return with_gradient(compiled, lambda x: Scaled.apply(x) + 1.0)


@torch.compiler.allow_in_graph
def whole_of_an_autograd_function(x):
    return Scaled.apply(x)


@case
def autograd_function_of_an_allowed_function(compiled):
    return with_gradient(compiled, lambda x: whole_of_an_autograd_function(x) + 1.0)


def substituted(x):
    return x * 41.0


def original(x):
    return x * 41.0


torch.compiler.substitute_in_graph(original, skip_signature_check=True)(substituted)


@case
def substitute(compiled):
    return forward(compiled, lambda x: original(x) + 1.0)


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right


torch.utils._pytree.register_pytree_node(
    Pair, lambda pair: ([pair.left * 41.0, pair.right], None), lambda leaves, _: Pair(*leaves)
)


@case
def node_of_a_tree(compiled):
    def function(x):
        return sum(torch.utils._pytree.tree_leaves(Pair(x, x + 1.0)))

    return forward(compiled, function)


@case
def decomposition(compiled):
    table = torch._decomp.decomposition_table
    op = torch.ops.aten.special_zeta.default
    before = table.pop(op, None)
    table[op] = lambda x, y: x * 41.0
    try:
        return forward(compiled, lambda x: torch.special.zeta(x.abs() + 2.0, x.abs() + 1.0))
    finally:
        del table[op]
        if before is not None:
            table[op] = before
