"""Switches and dumps of the bridge's own graph passes. Each is accepted and says once why it
changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...internal.notices import without_effect

_PASSES = "the compile server has passes of its own (EMULATOR_DISABLED_PASSES leaves some out)"
_SHAPES = "every shape is a program of its own, and none is for a range of shapes"

_REASONS = {
    "_set_dynamic_mode": _SHAPES,
    "_disable_bucket_refinement": _SHAPES,
    "_dump_refined_recipe_stat": _SHAPES,
    "_dump_bucket_memory_stat": _SHAPES,
    "_dump_history_memory_stat": _SHAPES,
    "_dump_recipe_memory_stat": _SHAPES,
    "_dump_synapse_recipe_memory_stat": _SHAPES,
    "_dump_dynamic_shape_memory_stat": _SHAPES,
    "load_ds_checkpoint": _SHAPES,
    "save_ds_checkpoint": _SHAPES,
    "clear_dynamic_bucket_recipe_info": _SHAPES,
    "_enable_eliminate_common_subexpression": _PASSES,
    "_enable_eliminate_dead_code": _PASSES,
    "_enable_constant_pooling": _PASSES,
    "_enable_peephole_optimization": _PASSES,
    "_enable_fuse_t_mm_optimization": _PASSES,
    "_enable_fuse_bn_relu_optimization": _PASSES,
    "_enable_bn_param_recalculation": _PASSES,
    "_enable_fuse_conv_bn_optimization": _PASSES,
    "_enable_permute_pass": _PASSES,
    "_enable_replace_inplace_ops": _PASSES,
    "_enable_replace_views": _PASSES,
    "_set_module_name": "graphs are named by the lines of the user's program",
    "_towl_configure": "there is no TOWL log; hpu-compile profile shows launches",
    "_towl_print": "there is no TOWL log; hpu-compile profile shows launches",
}


def _accepted(name: str, reason: str) -> Callable[..., None]:
    def accept(*args: Any, **kwargs: Any) -> None:
        without_effect(f"{name}()", reason)

    accept.__name__ = accept.__qualname__ = name
    accept.__doc__ = f"Has no effect: {reason}."
    return accept


# The functions by name.
ACCEPTED = {name: _accepted(name, reason) for name, reason in _REASONS.items()}
