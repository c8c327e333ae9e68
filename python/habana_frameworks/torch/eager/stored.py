"""Finds the programs that the store has for eager calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch

from ..dynamo.programs.front_end_keys import stored_program
from ..dynamo.programs.service import FrontEndKey, Loaded, NoProgram
from ..dynamo.records.records import GraphRecord
from ..torch_compat.ops import OpOverload
from .answer import SINGLE, Made, Resize
from .keys import call_key


def plain_results(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[int, ...], list[Made]]:
    """The counts and sources of results each of which is an output of the program, or that an
    `output_mask` does not ask for. Nothing but the program is in the store, so only calls with such
    results have a front-end key."""
    mask = output_mask(op, args, kwargs) or [True] * len(op._schema.returns)
    made = [Made("output" if wanted else "undefined") for wanted in mask]
    return (SINGLE,) * len(made), made


def output_mask(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[bool]:
    """Which results a call asks for, where its operator has an argument for that; else nothing."""
    for place, argument in enumerate(op._schema.arguments):
        if argument.name == "output_mask":
            mask: Sequence[bool] = args[place] if place < len(args) else kwargs[argument.name]
            return mask
    return ()


def key_of_call(
    op: OpOverload, name: str, overload: str, signature: bytes, record: GraphRecord
) -> FrontEndKey | None:
    if not signature or any(str(returned.type) != "Tensor" for returned in op._schema.returns):
        return None
    # Without a server the capture still finds wrong arguments.
    with suppress(NoProgram):
        return call_key(name, overload, signature, record)
    return None


def stored_call(
    front_end: FrontEndKey,
    tensors: Sequence[torch.Tensor],
    outs: Sequence[torch.Tensor],
    outputs: int,
    record: GraphRecord,
) -> Loaded | None:
    """The program that the store has for a call with these tensors, among them the `out` tensors,
    and so many outputs."""
    loaded = stored_program(front_end, record.name, record, keep=False)
    if loaded is None:
        return None
    forms = [_form(tensor) for tensor in tensors]
    for i, sizes, strides in resizes_to(loaded, tensors):
        if any(tensors[i] is out for out in outs):
            forms[i] = (forms[i][0], sizes, strides, forms[i][3])
    if loaded.program.takes(forms, outputs):
        return loaded
    record.unusable = "the stored program takes other tensors"
    return None


def _form(tensor: torch.Tensor) -> tuple[torch.dtype, Sequence[int], Sequence[int], bool]:
    """As Program.takes() gets it."""
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.device.type == "cpu"


def resizes_to(loaded: Loaded, tensors: Sequence[torch.Tensor]) -> list[Resize]:
    """The forms that a stored program's inputs have where they have another size than `tensors`:
    those that the call gives its `out` tensors first."""
    return [
        Resize(i, sizes, strides)
        for i, ((_, sizes, strides, _), tensor) in enumerate(
            zip(loaded.program.input_forms(), tensors, strict=False)
        )
        if sizes != tuple(tensor.shape)
    ]
