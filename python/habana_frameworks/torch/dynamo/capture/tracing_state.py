"""PyTorch's global state, which a capture leaves as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from ...torch_compat.transforms import (
    dual_level,
    exit_dual_level,
    functorch,
    is_fwd_grad_enabled,
    saved_tensors_hooks_disable,
    saved_tensors_hooks_enable,
    saved_tensors_hooks_message,
    set_fwd_grad_enabled,
)


@contextmanager
def clean_tracing_state() -> Iterator[None]:
    """Restores PyTorch's global state, as far as a capture may change it, after the block.

    Autocast's cache of converted weights is off, because it holds tensors of Dynamo's own tracing.
    A capture that fails between the ends of a torch.func transform leaves no transform behind.
    """
    cached = torch.is_autocast_cache_enabled()
    depth = functorch.get_dynamic_layer_stack_depth()
    dual = dual_level() >= 0
    tangents = is_fwd_grad_enabled()
    refused = saved_tensors_hooks_message()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    except BaseException:
        if not dual:
            _leave_dual_level()
        raise
    finally:
        functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        set_fwd_grad_enabled(tangents)
        if refused is None:
            saved_tensors_hooks_enable()
        else:
            saved_tensors_hooks_disable(refused)
        torch.set_autocast_cache_enabled(cached)


def _leave_dual_level() -> None:
    """Ends forward-mode differentiation if a graph has begun it; there is at most one level.

    Nothing in PyTorch says whether the level is there, because Dynamo's graphs do not enter it by
    forward_ad.
    """
    with suppress(RuntimeError):
        exit_dual_level(level=0)
