"""How outputs that lie in the memory of inputs were made from it: the forms of graph/alias_form.h.

A program makes such an output from the caller's tensor at every call. Autograd, and a write to the
output, then see the same as they would have seen of the tensor that the graph made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .recorder import storage_of
from .wire import CaptureError

# An output for which the builder itself knows the form: it is an input, or has memory of its own.
PLAIN = ""
VIEW = "view"
WITH_GRADIENT = "view_with_gradient"
WITHOUT_GRADIENT = "view_without_gradient"
DETACHED = "detached"


def alias_forms(
    inputs: Sequence[torch.Tensor], outputs: Sequence[Any], autograd: bool
) -> list[str]:
    """The form of each output. autograd: whether autograd recorded the run that made the outputs
    from the inputs, so that a view's form does not depend on the grad mode of the caller. Raises
    CaptureError for an output that no form describes."""
    memories = {storage_of(value) for value in inputs}
    bases = {id(_base(value)) for value in inputs}
    own = {id(value) for value in inputs}

    def form(output: Any) -> str:
        if not isinstance(output, torch.Tensor) or id(output) in own:
            return PLAIN
        if storage_of(output) not in memories:
            return PLAIN
        if _is_part_in_another_type(output, inputs):
            raise CaptureError("the graph returns a part of an input in another element type")
        if not output._is_view() or id(output._base) not in bases:
            if autograd and output.requires_grad:
                raise CaptureError("the graph detaches an input and lets the result require grad")
            return DETACHED
        if not autograd or not output.requires_grad:
            return VIEW
        return WITHOUT_GRADIENT if output.grad_fn is None else WITH_GRADIENT

    return [form(output) for output in outputs]


def _is_part_in_another_type(output: torch.Tensor, inputs: Sequence[torch.Tensor]) -> bool:
    """A program would return a copy of such a part; a whole input is returned by `view.dtype`."""
    owners = [value for value in inputs if storage_of(value) == storage_of(output)]
    return all(
        value.dtype != output.dtype
        and value.numel() * value.itemsize > output.numel() * output.itemsize
        for value in owners
    )


def _base(tensor: torch.Tensor) -> torch.Tensor:
    base = tensor._base
    return tensor if base is None else base
