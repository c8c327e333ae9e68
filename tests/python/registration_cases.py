"""Programs whose graphs depend on code that the graph does not show: what is registered for its
operators, and what its functions refer to.

As a module this is one version of the programs; registration_process.py makes another one of the
text by writing another number for 41.0. Each case is a function of `compiled`, a way to compile,
and gives the tensors that eager gives where `compiled` changes nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.library import Library

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
Case = Callable[[Compile], list[torch.Tensor]]

CASES: dict[str, Case] = {}
# Libraries live as long as the process.
_made: list[Library] = []


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def library(name: str, schema: str = "op(Tensor x) -> Tensor") -> Library:
    made = Library(f"registrations_{name}", "DEF")
    made.define(schema)
    _made.append(made)
    return made


def values(*sizes: int) -> torch.Tensor:
    count = torch.Size(sizes).numel()
    return (torch.arange(count, dtype=torch.float32).reshape(sizes) / 8 - 1).to("hpu")


def forward(compiled: Compile, function: Callable[..., Any], x: Any = None) -> list[torch.Tensor]:
    with torch.no_grad():
        return [compiled(function)(values(3, 4) if x is None else x)]


def with_gradient(compiled: Compile, function: Callable[..., Any]) -> list[torch.Tensor]:
    x = values(3, 4).requires_grad_()
    y = compiled(function)(x)
    y.square().sum().backward()
    return [y, x.grad]


# ---- torch.library.custom_op and what is registered for it ---------------------------------------


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


# ---- kernels of dispatch keys --------------------------------------------------------------------


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


fragment = Library("registrations_formula", "FRAGMENT")
fragment.define("more(Tensor x) -> Tensor")
fragment.impl("more", lambda x: x * 41.0, "CompositeImplicitAutograd")
_made.append(fragment)


@case
def operator_of_a_fragment(compiled):
    return forward(compiled, lambda x: torch.ops.registrations_formula.more(x) + 1.0)


# ---- PyTorch's own operators ---------------------------------------------------------------------


def overridden(
    name: str, key: str, kernel: Callable[..., Any]
) -> contextlib.AbstractContextManager:
    @contextlib.contextmanager
    def around():
        with torch.library._scoped_library("aten", "IMPL") as scoped:
            scoped.impl(name, kernel, key)
            yield

    return around()


def own(name: str, key: str, kernel: Any, function: Any, gradient: bool = False) -> None:
    def run(compiled):
        with overridden(name, key, kernel):
            return (with_gradient if gradient else forward)(compiled, function)

    CASES[f"aten {name} for {key}"] = run


own("digamma", "AutogradHPU", lambda x: x * 41.0, lambda x: torch.digamma(x) + 1.0, True)
own("sinc", "Autograd", lambda x: x * 41.0, lambda x: torch.sinc(x) + 1.0)
own("erfinv", "HPU", lambda x: x * 41.0, lambda x: torch.erfinv(x) + 1.0)
own("expm1", "HPU", lambda x: x * 41.0, lambda x: torch.expm1(x) + 1.0)
own("log1p", "CPU", lambda x: x * 41.0, lambda x: torch.log1p(x) + 1.0)
own("square", "CompositeImplicitAutograd", lambda x: x * 41.0, lambda x: torch.square(x) + 1.0)


# ---- functions that a graph calls as a whole -----------------------------------------------------


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
