"""The operators of attention and FusedSDPA share these checks of their arguments, and the mask of
hidden keys. An import of this module defines no operator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def check_operands(name: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuses operands that have no attention. name: the caller's, which errors begin with."""
    for argument, x in (("q", q), ("k", k), ("v", v)):
        if not x.is_floating_point():
            raise TypeError(
                f"{name}: {argument} is of {x.dtype}; pass floats, such as torch.bfloat16"
            )
        if x.dim() < 3:
            raise ValueError(
                f"{name}: {argument} has the sizes {list(x.shape)}; pass at least three "
                "dimensions, [.., heads, length, size]"
            )
    heads = q.shape[-3]
    for argument, x in (("k", k), ("v", v)):
        if x.shape[-3] == 0 or heads % x.shape[-3]:
            raise ValueError(
                f"{name}: {argument} has {x.shape[-3]} heads and q has {heads} (dimension -3); "
                f"pass a number of heads that divides {heads}"
            )


def check_dropout(argument: str, p: float) -> None:
    """argument: the names of the caller and of its argument."""
    if not 0 <= p < 1:
        raise ValueError(f"{argument} is {p}; pass a probability from 0 to below 1")


def check_window(name: str, window: Sequence[int] | None) -> None:
    if window is not None and len(window) != 2:
        raise ValueError(
            f"{name}: window_size is {list(window)}; pass two numbers, (left, right), where -1 is "
            "no limit"
        )


def hidden_keys(
    q: Tensor,
    k: Tensor,
    is_causal: bool,
    valid_seq_len: Tensor | None,
    padding: str,
    window: Sequence[int] | None,
) -> Tensor | None:
    """Returns which keys a query does not see."""
    rows = torch.arange(q.shape[-2], device=q.device).unsqueeze(-1)
    keys = torch.arange(k.shape[-2], device=q.device)
    left, right = window or (-1, -1)
    conditions = []
    if is_causal:
        conditions.append(keys > rows)
    if left >= 0:
        conditions.append(rows - keys > left)
    if right >= 0:
        conditions.append(keys - rows > right)
    if valid_seq_len is not None:
        length = valid_seq_len.reshape(-1, *[1] * (q.dim() - 1))
        hidden = keys >= length if padding == "right" else keys < k.shape[-2] - length
        conditions.append(hidden)
    found = None
    for condition in conditions:
        found = condition if found is None else found.logical_or(condition)
    return found
