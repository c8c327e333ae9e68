"""Describes the results of an ATen call, which it finds out on fake tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..dynamo.capture.decompositions.aten_rules import ATEN_RULES
from ..dynamo.capture.recorder import storage_of
from ..dynamo.capture.wire import CaptureError
from ..eager.answer import Resize
from ..eager.calls import (
    call_counts,
    compile_call,
    overload_of,
    resizes_between,
    run_on_fakes,
    tensors_among,
)
from ..torch_compat.fakes import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from ..torch_compat.trees import tree_leaves

_DEVICE = "hpu"
_COLLECTIVES = "_c10d_functional"
_KNOWN = frozenset(rule.split(".")[1] for rule in ATEN_RULES)


class Result(NamedTuple):
    """A tensor among the results of a call."""

    kind: str  # "new"; "argument": a tensor of the call; "undefined"
    tensor: int = 0  # of an argument: its place among the tensors of the call
    dtype: torch.dtype = torch.float32
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


class Description(NamedTuple):
    """The way in which calls of one signature are recorded (backend/torch/record/call_rule.h)."""

    refusal: str = ""  # why such calls are not recorded
    counts: Sequence[int] = ()  # by result of the operator: the length of a list, or -1
    results: Sequence[Result] = ()
    resizes: Sequence[Resize] = ()


def describe_call(
    name: str, overload: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Description:
    """Describes a call of operator `name` ("aten::add"). Raises what the operator's shape function
    raises for wrong arguments."""
    namespace, _, short = name.partition("::")
    try:
        op = overload_of(getattr(getattr(torch.ops, namespace), short), overload, args, kwargs)
        if namespace == _COLLECTIVES:
            from ..torch_compat import functional_collectives  # noqa: F401
        elif not _is_known(short):
            # It may be made of operators that recipes have; only a compilation shows it.
            refusal = compile_call(name, overload, args, kwargs).refusal
            if refusal:
                return Description(refusal)
        return _describe(op, args, kwargs)
    except CaptureError as error:
        return Description(str(error))
    except (DataDependentOutputException, DynamicOutputShapeException):
        return Description("its result depends on elements of its arguments")
    except NotImplementedError:
        return Description("it has no shape function")


def _is_known(short: str) -> bool:
    in_place = short.endswith("_") and not short.endswith("__")
    return (short[:-1] if in_place else short) in _KNOWN


def _describe(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Description:
    for argument, value in zip(op._schema.arguments, args, strict=False):
        if value is None and str(argument.type) == "Tensor":
            # Kernels give undefined results then (gradients of attention), and fake tensors others.
            return Description(f"argument {argument.name} is an undefined tensor")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.no_grad():
        fakes, result = run_on_fakes(mode, op, args, kwargs)
    resizes = resizes_between(tensors_among(args, kwargs), fakes)
    if resizes:
        return Description(resizes=resizes)
    results = [_result(leaf, fakes) for leaf in tree_leaves(result)]
    return Description("", call_counts(op, result), results)


def _result(leaf: Any, fakes: Sequence[torch.Tensor]) -> Result:
    if leaf is None:
        return Result("undefined")
    if not isinstance(leaf, torch.Tensor):
        raise CaptureError(f"it returns a {type(leaf).__name__}")
    for place, fake in enumerate(fakes):
        if leaf is fake:
            return Result("argument", place)
        if storage_of(leaf) == storage_of(fake):
            raise CaptureError("it returns a view of an argument")
    if leaf.device.type != _DEVICE:
        raise CaptureError(f"it returns a tensor on {leaf.device.type}")
    return Result("new", 0, leaf.dtype, tuple(leaf.shape), leaf.stride())
