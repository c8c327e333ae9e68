"""Whether layers calculate in fp8, by which recipe, and whether they measure."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from ....internal.switches import parse_bool
from .recipe import DelayedScaling, Format
from .scaling import scale_of


class FP8GlobalStateManager:
    """The state that all layers read. It belongs to the process."""

    enabled = False
    recipe: DelayedScaling | None = None
    group: Any = None
    depth = 0
    # Whether runs measure; None: the recipe's interval decides.
    manual_measurement: bool | None = None

    @classmethod
    def is_fp8_enabled(cls) -> bool:
        return cls.enabled

    @classmethod
    def get_fp8_recipe(cls) -> DelayedScaling:
        return cls.recipe or DelayedScaling()

    @classmethod
    def get_fp8_group(cls) -> Any:
        return cls.group

    @classmethod
    def set_measurement_mode(cls, manual: bool, manual_value: bool = True) -> None:
        """manual: from now on `manual_value` says whether runs measure; else the interval does."""
        cls.manual_measurement = manual_value if manual else None

    @classmethod
    def get_manual_measurement_mode(cls) -> bool | None:
        return cls.manual_measurement

    @classmethod
    def get_global_fp8_buffer_checkpoint(cls) -> dict[str, list[torch.Tensor]]:
        """Measurements that devices have exchanged: none, there is one device."""
        return {}

    @classmethod
    def reset_global_state(cls) -> None:
        cls.enabled, cls.recipe, cls.group, cls.depth = False, None, None, 0
        cls.manual_measurement = None


def is_fp8_available() -> tuple[bool, str]:
    """(True, "") where the device has fp8, otherwise False and the reason."""
    from ....hpu import get_device_name

    if get_device_name() == "GAUDI":
        return False, "a first-generation Gaudi has no fp8; Gaudi 2 or later is needed"
    return True, ""


@contextlib.contextmanager
def fp8_autocast(
    enabled: bool = False,
    force_measurement: bool | None = None,
    fp8_recipe: DelayedScaling | None = None,
    fp8_group: Any = None,
) -> Iterator[None]:
    """Layers calculate in fp8 in the block, or in the function that it decorates, if `enabled`.

    force_measurement: whether runs measure; None leaves that to the recipe's interval. Raises
    RuntimeError where the device has no fp8.
    """
    if enabled:
        available, reason = is_fp8_available()
        if not available:
            raise RuntimeError(f"fp8_autocast: {reason}")
    state = FP8GlobalStateManager
    before = (state.enabled, state.recipe, state.group)
    if state.depth == 0:
        state.manual_measurement = force_measurement
    state.depth += 1
    state.enabled, state.recipe, state.group = enabled, fp8_recipe, fp8_group
    try:
        yield
    finally:
        state.enabled, state.recipe, state.group = before
        state.depth -= 1


def is_fp8_enabled() -> bool:
    return FP8GlobalStateManager.enabled


def get_fp8_recipe() -> DelayedScaling:
    """The recipe of the innermost fp8_autocast, or the default one."""
    return FP8GlobalStateManager.get_fp8_recipe()


def get_default_fp8_recipe() -> DelayedScaling:
    return DelayedScaling()


def get_fp8_te_sr(fp8_recipe: DelayedScaling, fprop_tensor: bool = True) -> bool:
    """Whether tensors are rounded stochastically: gradients are, with HYBRID or by
    PT_TE_FORCE_SR_BWD."""
    if fprop_tensor:
        return False
    forced = os.environ.get("PT_TE_FORCE_SR_BWD", "").strip()
    if forced:
        return parse_bool(forced, "PT_TE_FORCE_SR_BWD")
    return fp8_recipe.fp8_format is Format.HYBRID


def set_measurement_mode(manual: bool, manual_value: bool = True) -> None:
    FP8GlobalStateManager.set_measurement_mode(manual, manual_value)


def get_manual_measurement_mode() -> bool | None:
    return FP8GlobalStateManager.manual_measurement


def reset_global_state() -> None:
    FP8GlobalStateManager.reset_global_state()


def _default_sf_compute(
    amax: torch.Tensor, scale: torch.Tensor, fp8_max: float, margin: int
) -> torch.Tensor:
    """The scale that follows from the largest element, under the name that tests of the reference
    use."""
    return scale_of(amax, scale, fp8_max, margin)
