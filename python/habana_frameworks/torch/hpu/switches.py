"""Switches of the graph compiler that programs change while they run.

Their state is kept and can be read. Most change nothing here; turning one of these on says so,
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..internal import bridge_config
from ..internal.notices import without_effect

_recompute_sdp = True
_SYNC_DEBUG_MODES = ("default", "warn", "error")
_sync_debug_mode = 0


def enable_dynamic_shape() -> None:
    bridge_config.assign("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", True)


def disable_dynamic_shape() -> None:
    bridge_config.assign("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", False)


def get_dynamic_shape_status() -> bool:
    """The state that was set last; before that, what the environment asks for."""
    return bool(bridge_config.get("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES"))


def enable_optim_output_sif() -> None:
    bridge_config.assign("PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF", True)


def disable_optim_output_sif() -> None:
    bridge_config.assign("PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF", False)


def enable_inference_mode() -> None:
    bridge_config.assign("PT_HPU_INFERENCE_MODE", True)


def disable_inference_mode() -> None:
    bridge_config.assign("PT_HPU_INFERENCE_MODE", False)


def enable_matmul3d_2d_reshape() -> None:
    bridge_config.assign("PT_HPU_MATMUL3D_2D_RESHAPE", True)


def disable_matmul3d_2d_reshape() -> None:
    bridge_config.assign("PT_HPU_MATMUL3D_2D_RESHAPE", False)


def enable_quantization() -> None:
    without_effect("enable_quantization()", "there are no quantized graphs")


def disable_quantization() -> None:
    """Does nothing: there are no quantized graphs."""


def enable_const_section_serialization(
    path: str, clear_path: bool = False, use_compression: bool = False
) -> None:
    """Changes nothing and warns once: no file is written, and nothing in `path` is deleted."""
    without_effect(
        "enable_const_section_serialization()", "weights are inputs of a program, not part of it"
    )


def disable_const_section_serialization() -> None:
    """Does nothing: no files are written anyway."""


def enable_recompute_sdp(enabled: bool) -> None:
    """Sets whether fused attention computes its probabilities again in the backward pass."""
    global _recompute_sdp
    _recompute_sdp = bool(enabled)
    without_effect(
        "enable_recompute_sdp()",
        "the compiler decides what the backward of attention computes again",
    )


def recompute_sdp_enabled() -> bool:
    """The state that was set last; True at first."""
    return _recompute_sdp


@contextmanager
def sdp_kernel(enable_recompute: bool = True) -> Iterator[dict[str, bool]]:
    """Sets enable_recompute_sdp inside the block, and restores the previous state after it."""
    before = recompute_sdp_enabled()
    try:
        enable_recompute_sdp(enable_recompute)
        yield {}
    finally:
        enable_recompute_sdp(before)


def set_sync_debug_mode(mode: int | str) -> None:
    """Sets whether a call that waits for the device warns (1, "warn") or raises (2, "error")."""
    global _sync_debug_mode
    if mode not in (0, 1, 2, *_SYNC_DEBUG_MODES):
        raise ValueError(f"set_sync_debug_mode({mode!r}): expected 0 to 2, or {_SYNC_DEBUG_MODES}")
    _sync_debug_mode = _SYNC_DEBUG_MODES.index(mode) if isinstance(mode, str) else mode
    if _sync_debug_mode:
        without_effect(f"set_sync_debug_mode({mode!r})", "waiting for the device is not reported")


def get_sync_debug_mode() -> int:
    """The mode that was set last; 0 at first."""
    return _sync_debug_mode
