"""The effects of an operator beside its results, the operators that are not recorded, and those
that no compiled graph may have."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from ... import native
from ...internal.registrations import overridden
from ...torch_compat.fakes import FakeTensor
from ...torch_compat.ops import OpOverload
from ...torch_compat.trees import tree_leaves
from .argument_checks import check_arguments
from .wire import CaptureError

# These are the identity on values; only autograd or tracing sees a difference.
IDENTITY = frozenset({"aten.lift_fresh.default", "aten.lift.default"})
# These checks have no result; they held while tracing and hold for every input that passes the
# guards.
HELD_CHECKS = frozenset(
    {
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default",
    }
)
# These answer about metadata, never about data: they are run, not recorded.
ABOUT_METADATA = frozenset(
    {
        "aten.is_same_size.default",
        "aten._has_compatible_shallow_copy_type.default",
        "aten.is_pinned.default",
    }
)


@functools.cache
def _undeclared_writes() -> dict[str, tuple[list[str], str]]:
    """Writes to running statistics that schemas do not declare. Functionalization has other ops for
    some of them."""
    found: dict[str, tuple[list[str], str]] = getattr(
        native.torch_module(), "undeclared_writes", dict
    )()
    return found


@functools.cache
def _dropout_switches(op: OpOverload) -> list[tuple[int, Any]]:
    """The arguments that turn dropout off, and their positions."""
    rows: list[tuple[str, str]] = getattr(native.torch_module(), "dropout_switches", list)()
    names = {name for namespace, name in rows if namespace in ("", op.namespace)}
    return [(i, a) for i, a in enumerate(op._schema.arguments) if a.name in names]


def _drops_nothing(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """True for an op that draws random numbers only for its dropout when the dropout is off, such
    as attention in inference."""
    for position, argument in _dropout_switches(op):
        given = args[position] if position < len(args) else kwargs.get(argument.name)
        given = argument.default_value if given is None else given
        if given is not None and not given:
            return True
    return False


def writes_undeclared(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """True for a call that writes to an argument although its schema does not say so."""
    found = _undeclared_writes().get(op._schema.name)
    if found is None:
        return False
    names = [argument.name for argument in op._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    arguments, condition = found
    written = any(isinstance(given.get(name), torch.Tensor) for name in arguments)
    return written and (not condition or bool(given.get(condition, True)))


def draws_random(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """True for a call that advances the generator."""
    seeded = torch.Tag.nondeterministic_seeded in op.tags
    return seeded and not _drops_nothing(op, args, kwargs)


def check_kernel(op: OpOverload) -> None:
    """Refuses an operator of PyTorch whose kernel for the device was registered by somebody
    else."""
    key = overridden(op)
    if key:
        raise CaptureError(f"somebody registered a kernel of {op} for {key}, which eager code runs")


def drop_constants(result: Any) -> None:
    """PyTorch runs an operator of constants while it traces; only its own operators are known to
    give the same elements when the program runs."""
    for leaf in tree_leaves(result):
        if isinstance(leaf, FakeTensor):
            leaf.constant = None


def _overwrites_all(
    self: torch.Tensor,
    src: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> bool:
    """True for an as_strided_scatter that replaces every element of a contiguous tensor."""
    expected = 1
    for n, step in sorted(zip(size, stride, strict=True), key=lambda pair: pair[1]):
        if n != 1 and step != expected:
            return False
        expected *= n
    return self.is_contiguous() and self.numel() == expected and not storage_offset


def check_op(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuses calls that no compiled graph may contain, and wrong ones: they raise eagerly what the
    CPU raises."""
    try:
        check_arguments(op, args, kwargs)
    except (RuntimeError, IndexError) as error:
        raise CaptureError(str(error)) from error
    if torch.Tag.inplace_view in op.tags:
        raise CaptureError(f"{op} changes the shape of an existing tensor")
    if op == torch.ops.aten.as_strided_scatter.default and not _overwrites_all(*args, **kwargs):
        # It writes by strides of its operand's memory, which the compiler may lay out otherwise.
        raise CaptureError(f"{op} writes through as_strided")
