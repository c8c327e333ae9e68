"""The answers of the front end about eager calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

# A result of an operator that is one tensor, not a list of tensors.
SINGLE = -1


class Made(NamedTuple):
    """The source of a tensor among the results of an operator."""

    kind: str  # "output": the program's next output; "empty": memory of 0 bytes; "undefined"
    dtype: torch.dtype = torch.float32
    sizes: tuple[int, ...] = ()


class Resize(NamedTuple):
    """The form that an operator gives an `out` tensor that has another size than its result."""

    tensor: int  # its place among the tensors of the call
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Answer(NamedTuple):
    """The program for the calls of one signature (backend/torch/record/call_program.h), or the
    reason why there is none."""

    program: Any  # _torch.Program, or None
    refusal: str = ""  # why there is no program
    lasting: bool = True  # whether there will be none later either
    counts: Sequence[int] = ()  # by result: the length of a list, or SINGLE
    made: Sequence[Made] = ()  # by tensor among the results
    resizes: Sequence[Resize] = ()  # before the call
